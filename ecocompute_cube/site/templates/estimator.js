"use strict";
// The estimator in the browser: analysis/{query,shapes,mechanism,curves,estimator}.py line for line,
// over the tables that Python exports (site/tables.py). Tests hold both to the same answers.

// A mistake of who asks: a cause that begins with the parameter's name, and a remedy.
class Mistake extends Error {
  constructor(cause, fix) {
    super(`${cause} ${fix}`);
    this.cause = cause;
    this.fix = fix;
  }
}

// How Python writes numbers, where sentences hold them.
const words = (() => {
  const signed = (value, digits = 1) => {
    const text = (value < 0 || Object.is(value, -0) ? "-" : "+") + Math.abs(value).toFixed(digits);
    return /[1-9]/.test(text) ? text : text.slice(1);
  };
  const general = (value, digits = 6) => String(Number(value.toPrecision(digits)));
  const shown = (value) => {
    const text = typeof value === "string" ? `'${value}'` : String(value);
    const signs = [...text];
    return signs.length <= 40 ? text : `${signs.slice(0, 40).join("")}…`;
  };
  // Three digits, without an exponent.
  const short = (value) => {
    if (value === 0) return "0";
    const decimals = 2 - Math.floor(Math.log10(Math.abs(value)));
    const whole = decimals >= 0 ? value.toFixed(decimals) : String(Math.round(value / 10 ** -decimals) * 10 ** -decimals);
    return whole.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, " ");
  };
  // The names of ``known`` that are most like a word, best first (difflib's ratio).
  const nearest = (word, known, most, cutoff = 0.6) => {
    const matching = (a, b) => {
      let [best, from, to] = [0, 0, 0];
      let above = [];
      for (let i = 0; i < a.length; i += 1) {
        const row = [];
        for (let j = 0; j < b.length; j += 1) {
          if (a[i] !== b[j]) continue;
          row[j] = (above[j - 1] ?? 0) + 1;
          if (row[j] > best) [best, from, to] = [row[j], i - row[j] + 1, j - row[j] + 1];
        }
        above = row;
      }
      if (!best) return 0;
      return best + matching(a.slice(0, from), b.slice(0, to)) + matching(a.slice(from + best), b.slice(to + best));
    };
    const scored = known.map((name) => [(2 * matching([...name], [...word])) / ([...name].length + [...word].length || 1), name]);
    const close = scored.filter(([score]) => score >= cutoff);
    return close.sort((a, b) => b[0] - a[0] || (a[1] < b[1] ? 1 : -1)).slice(0, most).map(([, name]) => name);
  };
  return { signed, general, shown, short, nearest };
})();

const estimating = (tables) => {
  const GB = 1e9;
  const TERA = 1e12;
  const { constants, limits, baseline } = tables;
  const { signed, general, shown, nearest } = words;
  const by = tables.mechanism;
  const keyed = (list, ...names) => new Map(list.map((each) => [names.map((name) => each[name]).join("|"), each]));
  const ratios = keyed(tables.ratios, "gpu", "precision", "runtime");
  const levels = keyed(tables.levels, "gpu", "runtime");
  const scatters = keyed(tables.scatter, "precision", "runtime");
  const own = (object, key) => (Object.hasOwn(object, key) ? object[key] : undefined);

  // ---- what is asked ----
  const arches = Object.keys(tables.arches);
  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
  const cardKey = (text) => text.toLowerCase().replace(/nvidia|geforce|tesla|[^\p{L}\p{N}]+/gu, "");
  const card = (name) => {
    const found = own(tables.cards, name) ?? own(tables.cards, own(tables.card_keys, cardKey(name)) ?? "");
    if (found) return found;
    const close = nearest(cardKey(name), Object.keys(tables.card_keys), 6, 0.5);
    const boards = [...new Set(close.map((key) => tables.card_keys[key]))].slice(0, 3);
    throw new Mistake(
      `gpu: no board '${name.slice(0, 60)}' is known here.`,
      boards.length ? `Nearest: ${boards.join(", ")}. Or name its generation as arch.` : `Name its generation as arch: ${arches.join(", ")}.`,
    );
  };
  const arch = (name) => {
    const found = own(tables.arches, name.toLowerCase().trim());
    if (found) return tables.cards[found.card];
    const close = nearest(name.toLowerCase(), arches, 2, 0.5);
    let fix = close.length ? `Did you mean ${close.join(" or ")}?` : `Known: ${arches.join(", ")}.`;
    if (own(tables.card_keys, cardKey(name))) fix = `It is a board: give it as gpu. Architectures: ${arches.join(", ")}.`;
    throw new Mistake(`arch: no architecture '${name.slice(0, 60)}' is known here.`, fix);
  };
  const text = (name, value) => {
    if (typeof value === "string") return value;
    throw new Mistake(`${name}: ${shown(value)} is no name.`, "Give it as text.");
  };
  const board = (gpu, generation) => {
    let [named, kind] = [gpu ?? null, generation ?? null];
    if (typeof named === "string" && kind === null && own(tables.arches, named.toLowerCase().trim())) [named, kind] = [null, named];
    if (named !== null) {
      const found = card(text("gpu", named));
      if (kind !== null && arch(text("arch", kind)).arch !== found.arch) {
        throw new Mistake(`arch: ${found.name} is of ${found.arch}, not of ${kind.slice(0, 40)}.`, "Give gpu or arch, not both.");
      }
      return [found, null];
    }
    if (kind === null) {
      throw new Mistake("arch: nothing says which board is meant.", `Give a board as gpu, or one of these as arch: ${arches.join(", ")}.`);
    }
    const found = arch(text("arch", kind));
    return [found, found.arch];
  };
  const size = (value) => {
    if (typeof value === "number" && limits.least_b <= value && value <= limits.most_b) return value;
    if (Number.isFinite(value)) {
      throw new Mistake(
        `params_b: ${shown(value)} billion parameters is beyond what is sensible.`,
        `Give billions of parameters from ${limits.least_b} to ${limits.most_b}: 7 for a 7B.`,
      );
    }
    throw new Mistake(`params_b: ${shown(value)} is no number of parameters.`, "Give billions of parameters: 7 for a 7B.");
  };
  const whole = (name, value, most) => {
    if (Number.isInteger(value) && 1 <= value && value <= most) return value;
    throw new Mistake(`${name}: ${shown(value)} is not a whole number from 1 to ${most}.`, `Give ${name} as a whole number, or leave it out.`);
  };
  const positive = (name, value) => {
    if (Number.isFinite(value) && value > 0) return value;
    throw new Mistake(`${name}: ${shown(value)} is not a number above zero.`, `Give ${name} as a number, or leave it out.`);
  };
  const meant = (key, keys, all) => {
    const [close] = nearest(key.slice(0, 40), keys, 1);
    return close === undefined ? `Known: ${all.join(", ")}.` : `Did you mean ${own(tables.precision_keys, close) ?? close}?`;
  };
  const precision = (name) => {
    if (typeof name === "string" && own(tables.bits, name)) return name;
    const key = plain(text("precision", name));
    const found = own(tables.precision_keys, key);
    if (found) return found;
    if (key === "fp8") throw new Mistake("precision: FP8 is two things.", "Give FP8-WO (weights alone) or FP8-DYN (weights and activations).");
    throw new Mistake(`precision: ${shown(name)} is not known here.`, meant(key, Object.keys(tables.precision_keys), Object.keys(tables.bits)));
  };
  const runtime = (name) => {
    const key = text("runtime", name).toLowerCase().trim();
    if (tables.runtimes.includes(key)) return key;
    throw new Mistake(`runtime: ${shown(name)} is not known here.`, meant(key, tables.runtimes, tables.runtimes));
  };
  const query = (given) => {
    const [on, generation] = board(given.gpu, given.arch);
    return {
      params_b: size(given.params_b),
      card: on,
      arch: generation,
      precision: precision(given.precision ?? "NF4"),
      runtime: runtime(given.runtime ?? "eager"),
      batch: whole("batch", given.batch ?? 1, limits.most_batch),
      context: whole("context", given.context ?? constants.measured_context, limits.most_context),
    };
  };

  // ---- the usual model of a size ----
  const between = (list, value, of) => {
    const place = list.findIndex((each) => of(each) >= value);
    return place < 0 ? list.length : place;
  };
  const shape = (paramsB) => {
    const known = tables.shapes;
    const n = between(known, paramsB, (each) => each.params_b);
    if (n === 0 || n === known.length) {
      const near = known[Math.min(n, known.length - 1)];
      const grown = paramsB / near.params_b;
      return {
        params_b: paramsB,
        layers: Math.max(1, near.layers * grown ** (1 / 3)),
        cache_bytes: near.cache_bytes * grown ** 0.5,
        embeddings_b: near.embeddings_b * grown,
      };
    }
    const [low, high] = [known[n - 1], known[n]];
    const part = Math.log(paramsB / low.params_b) / Math.log(high.params_b / low.params_b);
    const mixed = (name) => low[name] + part * (high[name] - low[name]);
    return { params_b: paramsB, layers: mixed("layers"), cache_bytes: mixed("cache_bytes"), embeddings_b: mixed("embeddings_b") };
  };
  const weightBytes = (like, name) => {
    const linear = like.params_b - like.embeddings_b;
    return GB * (like.embeddings_b * 2 + (linear * tables.bits[name]) / 8);
  };

  // ---- the mechanism ----
  const boardOf = (on, measuredAs) => {
    const known = own(by.boards, measuredAs);
    if (known) return { wait_w: known[0], joule_per_byte: known[1], host_s: known[2], fitted: true };
    const wait = by.wait_share * on.power_limit_w;
    const perByte = (by.byte_share * (on.power_limit_w - wait)) / (on.bandwidth_gb_s * GB);
    return { wait_w: wait, joule_per_byte: perByte, host_s: by.host_s, fitted: false };
  };
  const step = (its, asked, like, name) => {
    const { card: on, runtime: mode, batch, context } = asked;
    const params = GB * like.params_b;
    const cache = batch * like.cache_bytes * context;
    const bytes = weightBytes(like, name) + cache;
    const flop = 2 * params * batch;
    const memoryS = bytes / (on.bandwidth_gb_s * GB * by.copy_share);
    const computeS = flop / (on.fp16_tflops * TERA * constants.product_share);
    let busyS = Math.max(memoryS, computeS);
    let bound = memoryS >= computeS ? "memory" : "compute";
    const gapS = own(by.layer_gap_s, mode);
    if (gapS === undefined) {
      const hostS = like.layers * its.host_s * by.host_ratio[name] * by.runtime_host[mode];
      if (hostS > busyS) [busyS, bound] = [hostS, "host"];
    } else {
      const gapsS = like.layers * gapS;
      if (gapsS > busyS) bound = "kernels";
      busyS += gapsS;
    }
    const roomW = on.power_limit_w - its.wait_w;
    let workJ = its.joule_per_byte * (2 * params * by.work_ratio[name] + cache);
    workJ += (2 * params * (batch - 1) * roomW) / (on.fp16_tflops * TERA * constants.product_share);
    if (workJ > roomW * busyS) [busyS, bound] = [workJ / roomW, "power"];
    const energyJ = its.wait_w * busyS + workJ;
    return { mj_per_token: (1e3 * energyJ) / batch, tokens_per_s: batch / busyS, bound_by: bound };
  };
  const modelled = (its, like, asked) => {
    const known = own(by.runtime_host, asked.runtime) !== undefined || own(by.layer_gap_s, asked.runtime) !== undefined;
    if (!known || own(by.host_ratio, asked.precision) === undefined) return null;
    const arm = step(its, asked, like, asked.precision);
    const fp16 = asked.precision === baseline ? arm : step(its, asked, like, baseline);
    return {
      delta_pct: 100 * (arm.mj_per_token / fp16.mj_per_token - 1),
      mj_per_token: arm.mj_per_token,
      fp16_mj_per_token: fp16.mj_per_token,
      tokens_per_s: arm.tokens_per_s,
      fp16_tokens_per_s: fp16.tokens_per_s,
      bound_by: arm.bound_by,
      fp16_bound_by: fp16.bound_by,
      board_fitted: its.fitted,
    };
  };

  // ---- the answer ----
  const onCurve = (asked, curve) => {
    const twin = own(tables.twins, asked.card.name) !== undefined;
    const at = curve.sizes.find(([b]) => Math.abs(asked.params_b - b) <= constants.same_size * b);
    if (at) return { basis: twin ? "estimated" : "measured", fit: at[1], half: at[2], n: at[3] };
    const { knots } = curve;
    if (!knots.length || asked.params_b < knots[0][0] || asked.params_b > knots.at(-1)[0]) return null;
    const n = Math.max(1, between(knots, asked.params_b, ([b]) => b));
    const [low, high] = [knots[n - 1], knots[n]];
    const part = Math.log(asked.params_b / low[0]) / Math.log(high[0] / low[0]);
    return {
      basis: twin ? "estimated" : "interpolated",
      fit: low[1] + part * (high[1] - low[1]),
      half: low[2] === null || high[2] === null ? null : low[2] + part * (high[2] - low[2]),
      n: Math.min(low[3], high[3]),
    };
  };
  const error = (asked, said, seen, unseen) => {
    if (asked.runtime !== "eager" || said === null) return `${asked.precision}/${asked.runtime} was not measured on this board at this size`;
    const [low, high] = by.sizes_b;
    if (!(low <= asked.params_b && asked.params_b <= high)) {
      return `no model below ${general(low, 2)} or above ${general(high, 2)} billion parameters was measured, and nothing is extrapolated`;
    }
    const found = own(said.board_fitted ? seen : unseen, asked.precision);
    return found ? { half: found[2] } : `too few boards measured ${asked.precision} to tell how far the model is off`;
  };
  const moves = (its, like, asked, said) => {
    const moreMj = 1e3 * its.joule_per_byte * like.cache_bytes * (asked.context - constants.measured_context);
    const share = (100 * moreMj) / said.mj_per_token;
    if (share <= constants.same_points && said.bound_by === "host" && said.fp16_bound_by === "host") return share;
    const short = modelled(its, like, { ...asked, context: constants.measured_context });
    return short === null ? 0 : Math.abs(short.delta_pct - said.delta_pct);
  };
  const unlikeWhat = (its, like, asked, said) => {
    if (asked.batch > 1) return `nothing was measured beside FP16 at batch ${asked.batch}`;
    if (asked.context <= constants.measured_context) return null;
    if (said === null) return `nothing was measured beyond a context of ${constants.measured_context}`;
    if (moves(its, like, asked, said) <= constants.same_points) return null;
    return `nothing was measured beyond a context of ${constants.measured_context}, and one of ${asked.context} matters for a model of this size`;
  };
  const ratio = (asked, curve, said, unlike) => {
    if (asked.precision === baseline) return { basis: "measured", log: 0, half: 0, sessions: 0 };
    if (unlike !== null) return unlike;
    const known = curve ? onCurve(asked, curve) : null;
    if (known !== null) {
      const spread = scatters.get(`${asked.precision}|${asked.runtime}`);
      if (known.half !== null && spread.held >= constants.least_held * spread.tried) {
        return { basis: known.basis, log: known.fit, half: known.half, sessions: known.n };
      }
    }
    const off = error(asked, said, by.seen, by.unseen);
    if (said !== null && typeof off === "object") return { basis: "estimated", log: Math.log1p(said.delta_pct / 100), half: off.half, sessions: 0 };
    if (known !== null) return `${asked.precision} was measured in one session of this board alone, and nothing tells how far another would be`;
    return off;
  };
  const level = (asked, measuredAs, unlike) => {
    const curve = levels.get(`${measuredAs}|${asked.runtime}`);
    if (!curve || unlike !== null) return null;
    const known = onCurve(asked, curve);
    return known === null || known.half === null ? null : { basis: known.basis, log: known.fit, half: known.half, sessions: known.n };
  };
  const energyOf = (found, fp16, asked, said) => {
    if (found === null) return null;
    if (fp16 !== null) {
      const basis = found.basis === "estimated" ? found.basis : fp16.basis;
      return { basis, log: fp16.log + found.log, half: Math.hypot(fp16.half, found.half), sessions: fp16.sessions };
    }
    const off = error(asked, said, by.seen_level, by.unseen_level);
    return said === null || typeof off === "string" ? null : { basis: "estimated", log: Math.log(said.mj_per_token), half: off.half, sessions: 0 };
  };
  const vram = (like, asked, name) => {
    const cache = like.cache_bytes * asked.context * asked.batch;
    return (weightBytes(like, name) + cache) / GB + constants.context_gb;
  };
  const confidenceOf = (basis, found, curve, spread) => {
    if (found === null || basis === "unavailable") return "none";
    if (basis === "estimated" || !curve || curve.doubtful || !spread) return "low";
    if (found.sessions === 1 || spread.held < constants.well_held * Math.max(1, spread.tried)) return "low";
    return found.sessions >= constants.many_sessions ? "high" : "medium";
  };
  const advice = (ci) => {
    if (ci === null || (ci[0] <= 0 && 0 <= ci[1])) return "depends";
    return ci[1] < 0 ? "quantize" : "do_not_quantize";
  };
  const verdict = (found, ci, reason) => {
    if (found === null || ci === null) return `No answer: ${reason}.`;
    if (found.half === 0) return "FP16 is what the others are compared with.";
    const what = ci[1] < 0 ? "saves" : ci[0] > 0 ? "costs" : "may save or cost";
    return `Quantizing ${what} energy: ${signed(ci[0], 0)} to ${signed(ci[1], 0)} % against FP16, ${found.basis}.`;
  };
  const notesOn = (asked, like, curve, measuredAs, unlike) => {
    const notes = [];
    if (asked.arch !== null) notes.push(`${asked.arch} is answered for ${asked.card.name}: other boards of it may differ.`);
    if (measuredAs !== asked.card.name) notes.push(`Measured on ${measuredAs}, which is alike but for NVLink.`);
    if (curve) notes.push(...curve.notes);
    if (vram(like, asked, baseline) > asked.card.memory_gb) notes.push("FP16 of this size does not fit the board: there is nothing to compare with.");
    if (asked.context > constants.measured_context && unlike === null) {
      notes.push(`Measured at a context of ${constants.measured_context}; more changes little here.`);
    }
    return notes;
  };
  const pct = (log) => 100 * Math.expm1(log);

  const answer = (asked) => {
    const measuredAs = own(tables.twins, asked.card.name) ?? asked.card.name;
    const [like, its] = [shape(asked.params_b), boardOf(asked.card, measuredAs)];
    const said = modelled(its, like, asked);
    const isPlain = asked.precision === baseline;
    const curve = isPlain ? undefined : ratios.get(`${measuredAs}|${asked.precision}|${asked.runtime}`);
    const unlike = unlikeWhat(its, like, asked, said);
    const told = ratio(asked, curve, said, unlike);
    const [found, reason] = typeof told === "string" ? [null, told] : [told, null];
    const fp16 = found ? level(asked, measuredAs, unlike) : null;
    const energy = energyOf(found, fp16, asked, said);
    const memory = vram(like, asked, asked.precision);
    const ci = found ? [pct(found.log - found.half), pct(found.log + found.half)] : null;
    let basis = found ? found.basis : "unavailable";
    if (isPlain) basis = energy ? energy.basis : "unavailable";
    return {
      params_b: asked.params_b,
      gpu: asked.card.name,
      arch_used: asked.card.arch,
      precision: asked.precision,
      runtime: asked.runtime,
      batch: asked.batch,
      context: asked.context,
      delta_pct: found ? pct(found.log) : null,
      ci,
      ci_confidence: tables.confidence,
      basis,
      confidence: confidenceOf(
        basis,
        isPlain ? energy : found,
        isPlain ? levels.get(`${measuredAs}|${asked.runtime}`) : curve,
        scatters.get(`${asked.precision}|${asked.runtime}`),
      ),
      recommendation: advice(ci),
      verdict: verdict(found, ci, reason),
      reason,
      mj_per_token: energy ? Math.exp(energy.log) : null,
      mj_ci: energy ? [Math.exp(energy.log - energy.half), Math.exp(energy.log + energy.half)] : null,
      mj_basis: energy ? energy.basis : "unavailable",
      crossover_b: curve ? curve.crossing[0] : null,
      crossover_range_b: curve ? curve.crossing.slice(1) : [null, null],
      anchors: curve ? curve.anchors : [],
      stack: curve ? curve.stacks : [],
      modelled: found !== null && found.sessions === 0 && !isPlain,
      mechanism: said,
      weight_gb: (asked.params_b * tables.plain_bits[asked.precision]) / 8,
      weight_gb_fp16: (asked.params_b * tables.plain_bits[baseline]) / 8,
      vram_gb: memory,
      fits: memory <= asked.card.memory_gb,
      notes: notesOn(asked, like, curve, measuredAs, unlike),
    };
  };
  const curveOf = (asked) => ratios.get(`${own(tables.twins, asked.card.name) ?? asked.card.name}|${asked.precision}|${asked.runtime}`);
  return { query, answer, card, whole, positive, precision, runtime, curveOf, pct };
};
