"use strict";
// The optimizer in the browser: analysis/optimizer.py line for line, over the estimator beside it.
const optimizing = (tables, { query, answer, whole, positive, precision, runtime }) => {
  const ALTERNATIVES = 3;
  const NEAR = 2; // × in size: models whose perplexity may speak of another's
  const TOKENS = 1e6;
  const MJ_PER_KWH = 3.6e9;
  const S_PER_H = 3600;
  const AIMS = ["min_energy", "min_latency", "max_throughput", "min_vram", "min_cost", "min_carbon"];
  const LIMITS = ["max_latency_ms", "max_vram_gb", "min_throughput", "max_perplexity_pct"];
  const PRICES = ["price_per_kwh", "price_per_hour", "grams_per_kwh"];

  const aimNamed = (name) => {
    const found = AIMS.find((aim) => aim === name || aim.slice(4) === name);
    if (found) return found;
    throw new Mistake(`objective: ${words.shown(name)} is not known here.`, `Known: ${AIMS.join(", ")}.`);
  };
  const above = (given, names) => Object.fromEntries(names.map((name) => [name, given[name] === undefined || given[name] === null ? null : positive(name, given[name])]));
  const paidFor = (given, aim) => {
    const found = above(given, PRICES);
    if (aim === "min_cost" && found.price_per_kwh === null && found.price_per_hour === null) {
      throw new Mistake("price_per_kwh: there is no cost without a price.", "Give price_per_kwh, price_per_hour of the machine, or both.");
    }
    if (aim === "min_carbon" && found.grams_per_kwh === null) {
      throw new Mistake("grams_per_kwh: there is no carbon figure without a factor.", "Give the grams of CO2 of a kWh where the machine stands.");
    }
    return found;
  };
  const listed = (name, values, checked) => {
    if (!Array.isArray(values) || !(1 <= values.length && values.length <= 64)) throw new Mistake(`${name}: give 1 to 64 of them.`, `Or leave ${name} out.`);
    return [...new Set(values.map(checked))];
  };

  // ---- one configuration ----
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const measuredRate = (found) => {
    if (found.basis !== "measured" || found.precision === tables.baseline) return null;
    const rates = found.anchors
      .filter((anchor) => anchor.tokens_per_s && Math.abs(anchor.N - found.params_b) <= tables.constants.same_size * anchor.N)
      .map((anchor) => anchor.tokens_per_s);
    return rates.length ? mean(rates) : null;
  };
  const perplexity = (asked) => {
    if (asked.precision === tables.baseline) return 0;
    const near = (tables.quality[asked.precision] ?? [])
      .filter((each) => 1 / NEAR <= each.params_b / asked.params_b && each.params_b / asked.params_b <= NEAR)
      .map((each) => each.delta_pct);
    return near.length ? Math.max(...near) : null;
  };
  const kwh = (mj) => (mj * TOKENS) / MJ_PER_KWH;
  const cost = (mj, rate, paid) => {
    if (paid.price_per_kwh === null && paid.price_per_hour === null) return null;
    const hours = TOKENS / rate / S_PER_H;
    return kwh(mj) * (paid.price_per_kwh ?? 0) + hours * (paid.price_per_hour ?? 0);
  };
  const config = (asked, paid) => {
    const found = answer(asked);
    const said = found.mechanism;
    if (said === null) return null;
    const known = found.mj_per_token !== null;
    const energy = known ? found.mj_per_token : said.mj_per_token;
    const basis = known ? found.mj_basis : "unavailable";
    const rate = measuredRate(found);
    const throughput = rate || said.tokens_per_s;
    const quality = perplexity(asked);
    return {
      precision: asked.precision,
      runtime: asked.runtime,
      batch: asked.batch,
      context: asked.context,
      energy_mj_per_token: energy,
      delta_pct: found.delta_pct,
      ci: found.ci,
      latency_ms: (1e3 * asked.batch) / throughput,
      throughput_tps: throughput,
      vram_gb: found.vram_gb,
      perplexity_pct: quality,
      cost_per_million: cost(energy, throughput, paid),
      co2_g_per_million: paid.grams_per_kwh === null ? null : kwh(energy) * paid.grams_per_kwh,
      basis: {
        energy: basis === "unavailable" ? "modelled" : basis,
        latency: rate ? "measured" : "modelled",
        vram: "estimated",
        perplexity: quality === null ? "unavailable" : "measured on other models",
      },
      confidence: found.confidence,
    };
  };

  // ---- the choice ----
  const keys = (aim) => {
    const of = {
      min_energy: (c) => c.energy_mj_per_token,
      min_latency: (c) => c.latency_ms,
      max_throughput: (c) => -c.throughput_tps,
      min_vram: (c) => c.vram_gb,
      min_cost: (c) => c.cost_per_million ?? 0,
      min_carbon: (c) => c.co2_g_per_million ?? 0,
    }[aim];
    return (a, b) => of(a) - of(b) || a.energy_mj_per_token - b.energy_mj_per_token;
  };
  const blocking = (each, limits, memoryGb) => {
    const room = limits.max_vram_gb === null ? memoryGb : Math.min(memoryGb, limits.max_vram_gb);
    const upper = [
      [limits.max_vram_gb === room ? "max_vram_gb" : "memory_gb", room, each.vram_gb],
      ["max_latency_ms", limits.max_latency_ms, each.latency_ms],
      ["max_perplexity_pct", limits.max_perplexity_pct, each.perplexity_pct],
    ];
    const found = upper
      .filter(([, most, value]) => most !== null && (value === null || value > most))
      .map(([limit, allowed, value]) => ({ limit, allowed, value }));
    if (limits.min_throughput !== null && each.throughput_tps < limits.min_throughput) {
      found.push({ limit: "min_throughput", allowed: limits.min_throughput, value: each.throughput_tps });
    }
    return found;
  };
  const excess = ({ value, allowed }) => (value === null || allowed <= 0 || value <= 0 ? Infinity : Math.abs(Math.log(value / allowed)));
  const pareto = (configs) => {
    const front = [];
    for (const each of [...configs].sort((a, b) => a.latency_ms - b.latency_ms || a.energy_mj_per_token - b.energy_mj_per_token)) {
      if (!front.length || each.energy_mj_per_token < front.at(-1).energy_mj_per_token) front.push(each);
    }
    return front;
  };
  const notesOn = (chosen, configs, considered) => {
    const notes = [];
    if (considered > configs.length) notes.push(`${considered - configs.length} combinations were left out: no model speaks of them.`);
    if (chosen === null) return notes;
    if (chosen.basis.energy === "modelled") notes.push("The energy of the recommended configuration is modelled alone: it has no range.");
    if (chosen.ci !== null && chosen.ci[0] < 0 && 0 < chosen.ci[1]) {
      notes.push(`Whether ${chosen.precision} saves against FP16 is not decided: ${words.signed(chosen.ci[0], 0)} to ${words.signed(chosen.ci[1], 0)} %.`);
    }
    if (chosen.batch > 1) notes.push("A batch above 1 helps where so many requests wait at a time; it was not measured.");
    return notes;
  };
  const nearestMiss = (blocked) => {
    const weighed = blocked.filter(([, by]) => by.length).map(([each, by]) => ({ config: each, blocked_by: by, off: by.reduce((sum, one) => sum + excess(one), 0) }));
    if (!weighed.length) return null;
    const best = weighed.reduce((a, b) => (b.blocked_by.length < a.blocked_by.length || (b.blocked_by.length === a.blocked_by.length && b.off < a.off) ? b : a));
    return { config: best.config, blocked_by: best.blocked_by };
  };

  // Look at every combination. ``given``: the parameters of the API.
  return (given) => {
    const aim = aimNamed(given.objective ?? "min_energy");
    const asked = query({ params_b: given.params_b, gpu: given.gpu, arch: given.arch, context: given.context });
    const [limits, paid] = [above(given, LIMITS), paidFor(given, aim)];
    const { searched } = tables;
    const rows = given.batch === undefined || given.batch === null ? given.batches ?? searched.batches : [given.batch];
    const asking = listed("precisions", given.precisions ?? searched.precisions, precision).flatMap((name) =>
      listed("runtimes", given.runtimes ?? searched.runtimes, runtime).flatMap((mode) =>
        listed("batches", rows, (each) => whole("batch", each, tables.limits.most_batch)).map((batch) => ({ ...asked, precision: name, runtime: mode, batch }))));
    const configs = asking.map((each) => config(each, paid)).filter((each) => each !== null);
    const blocked = configs.map((each) => [each, blocking(each, limits, asked.card.memory_gb)]);
    const feasible = blocked.filter(([, why]) => !why.length).map(([each]) => each).sort(keys(aim));
    const chosen = feasible[0] ?? null;
    return {
      objective: aim,
      recommended: chosen,
      alternatives: feasible.slice(1, 1 + ALTERNATIVES),
      pareto: pareto(feasible),
      feasible_count: feasible.length,
      considered: asking.length,
      closest_infeasible: chosen ? null : nearestMiss(blocked),
      notes: notesOn(chosen, configs, asking.length),
    };
  };
};
