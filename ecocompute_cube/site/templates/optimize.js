"use strict";
// Optimize: every combination is looked at as the reader changes what is asked.
(() => {
  const { byId, json, tabled, draw, drawn, ready, linked } = page;
  const tables = json(byId("tables"));
  const estimator = estimating(tables);
  const understand = understanding(tables, estimator);
  const optimize = optimizing(tables, estimator);
  const { signed, short } = words;
  const follow = site.sizes(() => changed());
  const NUMBERS = { max_latency_ms: "lat", max_vram_gb: "vram", min_throughput: "tput", max_perplexity_pct: "ppl", price_per_kwh: "kwh", price_per_hour: "hour", grams_per_kwh: "co2" };
  const boxes = (name) => [...byId(name).querySelectorAll("input")];
  const checked = (name) => boxes(name).filter((box) => box.checked).map((box) => box.value);

  const isArch = (value) => Object.hasOwn(tables.arches, value);
  const given = () => ({
    params_b: site.numbered("size") ?? NaN,
    [isArch(byId("board").value) ? "arch" : "gpu"]: byId("board").value,
    objective: byId("objective").value,
    context: site.numbered("context") ?? tables.constants.measured_context,
    batch: byId("batch").value === "" ? null : Number(byId("batch").value),
    precisions: checked("precisions"),
    runtimes: checked("runtimes"),
    ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, site.numbered(name)])),
  });
  const LIMITS = { max_latency_ms: "ms a token", max_vram_gb: "GB", memory_gb: "GB, the board's memory", min_throughput: "tokens/s", max_perplexity_pct: "% of perplexity" };
  const named = (config) => `${config.precision} ${config.runtime}, batch ${config.batch}`;
  const priced = (value) => (value === null ? "–" : short(value));
  const tilesOf = (config) => [
    ["Energy of 1M tokens", `${short(config.energy_mj_per_token)} kJ`, config.basis.energy],
    ["Against FP16", config.delta_pct === null ? "–" : `${signed(config.delta_pct)} %`, config.ci ? `${signed(config.ci[0], 0)} to ${signed(config.ci[1], 0)} %` : "the mechanism alone speaks of it"],
    ["Time a token", `${short(config.latency_ms)} ms`, config.basis.latency],
    ["Throughput", `${short(config.throughput_tps)} tokens/s`, config.basis.latency],
    ["Memory", `${short(config.vram_gb)} GB`, config.basis.vram],
    ["Perplexity", config.perplexity_pct === null ? "–" : `${signed(config.perplexity_pct)} %`, config.basis.perplexity],
    ...(config.cost_per_million === null ? [] : [["Cost of 1M tokens", short(config.cost_per_million), "in the money of your prices"]]),
    ...(config.co2_g_per_million === null ? [] : [["CO₂ of 1M tokens", `${short(config.co2_g_per_million)} g`, ""]]),
  ];
  const rowOf = (mark, config, paid) => [mark, named(config), short(config.energy_mj_per_token), config.delta_pct === null ? "–" : `${signed(config.delta_pct)} %`, short(config.latency_ms), short(config.throughput_tps), short(config.vram_gb), config.perplexity_pct === null ? "–" : `${signed(config.perplexity_pct)} %`, ...(paid ? [priced(config.cost_per_million), priced(config.co2_g_per_million)] : []), `energy ${config.basis.energy}, rate ${config.basis.latency}`];
  const HEAD = ["place", "configuration", "kJ per 1M tokens", "against FP16", "ms a token", "tokens/s", "GB", "perplexity"];
  const PAID = ["cost per 1M", "g CO₂ per 1M"];
  // As site/options.py makes it, too.
  const point = (config) => ({ arm: named(config), precision: config.precision, kj: config.energy_mj_per_token, ms: config.latency_ms });
  const blocked = ({ limit, allowed, value }) => `${limit} ${short(allowed)}: ${value === null ? "not known" : `it takes ${short(value)}`} (${LIMITS[limit]})`;

  const show = async () => {
    const values = given();
    try {
      const found = optimize(values);
      const { recommended, closest_infeasible: nearest } = found;
      const best = recommended ?? nearest?.config;
      byId("verdict").textContent = recommended ? `${named(recommended)}.` : nearest ? `No combination keeps to the limits. The nearest: ${named(nearest.config)}.` : "Nothing can be recommended: no model speaks of any combination.";
      site.tiles("tiles", best ? tilesOf(best) : []);
      const counted = `${found.feasible_count} of ${found.considered} combinations keep to the limits.`;
      site.listed("notes", [...(nearest?.blocked_by ?? []).map(blocked), ...found.notes, counted]);
      const paid = best !== undefined && (best.cost_per_million !== null || best.co2_g_per_million !== null);
      const rows = recommended ? [rowOf("recommended", recommended, paid), ...found.alternatives.map((each) => rowOf("next", each, paid)), ...found.pareto.filter((each) => each !== recommended && !found.alternatives.includes(each)).map((each) => rowOf("on the front", each, paid))] : [];
      byId("configs").replaceChildren(...(rows.length ? [tabled([...HEAD, ...(paid ? PAID : []), "basis"], rows)] : []));
      byId("numbers-options").replaceChildren(tabled(["configuration", "kJ per 1M tokens", "ms a token", "energy is"], found.pareto.map((each) => [named(each), short(each.energy_mj_per_token), short(each.latency_ms), each.basis.energy])));
      const { params_b: size, gpu, arch, objective: obj, context: ctx, batch, precisions, runtimes } = values;
      const numbers = Object.fromEntries(Object.entries(NUMBERS).map(([name, short_]) => [short_, values[name]]));
      byId("permalink").value = site.link({ size, gpu, arch, obj, ctx, batch: batch ?? "any", prec: precisions.join(","), rt: runtimes.join(","), ...numbers });
      const others = found.alternatives.filter((each) => !found.pareto.includes(each));
      await draw("options", (spec) => ({ ...spec, datasets: { front: found.pareto.map(point), others: others.map(point), chosen: recommended ? [point(recommended)] : [] } }));
    } catch (mistake) {
      byId("verdict").textContent = site.title(mistake);
      byId("permalink").value = "";
      for (const id of ["tiles", "notes", "configs"]) byId(id).replaceChildren();
    }
  };
  let waiting = 0;
  const changed = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(show); };
  byId("ask").addEventListener("submit", (event) => event.preventDefault());
  byId("ask").addEventListener("input", (event) => { if (!["size", "slider"].includes(event.target.id)) changed(); });
  byId("known").addEventListener("input", () => { byId("grams_per_kwh").value = byId("known").value; });
  site.copies("copy-link", () => byId("permalink").value);

  const only = (id, names, known) => {
    const kept = names?.split(",").map(known);
    if (kept) for (const box of boxes(id)) box.checked = kept.includes(box.value);
  };
  const fromLink = () => {
    const link = linked();
    const told = (...names) => names.map((name) => link.get(name)).find((value) => value !== null && value !== "");
    try {
      const asked = told("q") ? understand(told("q")).values : {};
      for (const [name, value] of Object.entries(asked)) if (!link.has(name)) link.set(name, String(value));
      if (told("size", "params_b")) byId("size").value = told("size", "params_b");
      const board = told("gpu", "arch");
      if (board) byId("board").value = isArch(board.toLowerCase()) ? board.toLowerCase() : estimator.card(board).name;
      const aim = told("obj", "objective");
      if (aim && !site.choose(byId("objective"), aim)) site.choose(byId("objective"), `${aim === "throughput" ? "max" : "min"}_${aim}`);
      if (told("ctx", "context")) byId("context").value = told("ctx", "context");
      if (told("batch")) site.choose(byId("batch"), told("batch") === "any" ? "" : told("batch"));
      only("precisions", told("prec", "precisions", "precision"), estimator.precision);
      only("runtimes", told("rt", "runtimes", "runtime"), estimator.runtime);
      for (const [name, short_] of Object.entries(NUMBERS)) if (told(short_, name)) byId(name).value = told(short_, name);
      follow();
    } catch (mistake) {
      byId("verdict").textContent = site.title(mistake);
      return undefined;
    }
    return show();
  };
  byId("board").value = "NVIDIA GeForce RTX 4090";
  drawn.then(fromLink).then(ready);
  addEventListener("hashchange", fromLink);
})();
