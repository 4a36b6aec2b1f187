"use strict";
// Your model: a question in words or in parts, and the estimator's answer beside what was measured.
(() => {
  const { byId, json, tabled, drawn, ready, linked } = page;
  const tables = json(byId("tables"));
  const estimator = estimating(tables);
  const understand = understanding(tables, estimator);
  const { signed, short } = words;
  const follow = site.sizes(() => changed());
  const PARTS = ["precision", "runtime"];

  const isArch = (value) => Object.hasOwn(tables.arches, value);
  const given = () => ({
    params_b: site.numbered("size") ?? NaN,
    [isArch(byId("board").value) ? "arch" : "gpu"]: byId("board").value,
    precision: byId("precision").value,
    runtime: byId("runtime").value,
    batch: site.numbered("batch") ?? 1,
    context: site.numbered("context") ?? tables.constants.measured_context,
  });
  // Put values, by the names of the parameters, into the fields.
  const fill = (values) => {
    if (values.params_b !== undefined) byId("size").value = values.params_b;
    const board = values.gpu ?? values.arch;
    if (board !== undefined) byId("board").value = isArch(board.toLowerCase()) ? board.toLowerCase() : estimator.card(board).name;
    if (values.precision !== undefined) byId("precision").value = estimator.precision(values.precision);
    if (values.runtime !== undefined) byId("runtime").value = estimator.runtime(values.runtime);
    for (const name of ["batch", "context"]) if (values[name] !== undefined) byId(name).value = values[name];
    follow();
  };

  const percent = (value) => `${signed(value)}\u00a0%`;
  const range = ([low, high], written) => `${written(low)} to ${written(high)}`;
  const size = (value) => (value === null ? "beyond the sizes measured" : `${words.general(value, 2)}B`);
  const tilesOf = (found) => {
    const advice = { quantize: "quantize", do_not_quantize: "do not quantize", depends: "it depends" }[found.recommendation];
    const confidence = `${words.general(100 * found.ci_confidence)} % of other sessions`;
    return [
      ["Change of energy", found.delta_pct === null ? "–" : percent(found.delta_pct), found.ci && `${confidence}: ${range(found.ci, (x) => signed(x, 0))} %`, found.recommendation === "do_not_quantize" ? "cost" : ""],
      ["Advice", advice, `${found.basis}, confidence ${found.confidence}`],
      ["Energy a token", found.mj_per_token === null ? "–" : `${short(found.mj_per_token)} mJ`, found.mj_ci && `${range(found.mj_ci, short)} mJ, ${found.mj_basis}`],
      ["The curve turns at", found.crossover_b === null ? "–" : size(found.crossover_b), found.crossover_b === null ? (found.anchors.length ? "not within the sizes measured" : "nothing was measured") : range(found.crossover_range_b, size)],
      ["Memory", `${found.vram_gb.toFixed(1)} GB`, found.fits ? "fits the board; estimated" : "more than the board has", found.fits ? "" : "cost"],
      ["Weights", `${words.general(found.weight_gb, 3)} GB`, `${words.general(found.weight_gb_fp16, 3)} GB in FP16`],
    ];
  };
  const told = (said) => {
    if (said === null) return "No model speaks of this arm.";
    const by = said.board_fitted ? "fitted to measurements" : "from its data sheet";
    return `Modelled from idle power, bandwidth, launches and host speed, the board ${by}: change ${percent(said.delta_pct)}, ` +
      `${short(said.mj_per_token)} mJ a token (FP16 ${short(said.fp16_mj_per_token)}); ${short(said.tokens_per_s)} tokens/s, bound by ${said.bound_by} ` +
      `(FP16 ${short(said.fp16_tokens_per_s)}, by ${said.fp16_bound_by}). It has no range.`;
  };
  const anchors = (found) => {
    const rows = found.anchors.map((each) => [`${words.general(each.N, 3)}B`, percent(each.dE), each.session, short(each.mj_per_token), short(each.fp16_mj_per_token), each.model, each.stack, each.remarks.join(", ").replaceAll("_", " ") || "–"]);
    byId("anchors").replaceChildren(...(rows.length ? [tabled(["size", "change", "session", "mJ a token", "FP16's", "model", "software", "remarks"], rows)] : []));
  };
  const documentOf = (asked, found) => {
    const { params_b, gpu, precision, runtime, batch, context, ...rest } = found;
    const input = { params_b, gpu, arch: asked.card.arch, precision, runtime, batch, ctx: context };
    return site.rounded({ input, form: "curves", ...rest });
  };
  const shareable = (values) => site.link({ size: values.params_b, gpu: values.gpu, arch: values.arch, prec: values.precision, rt: values.runtime, batch: values.batch, ctx: values.context });

  let text = "";
  const show = async () => {
    const values = given();
    try {
      const asked = estimator.query(values);
      const found = estimator.answer(asked);
      byId("understood").textContent = `${words.general(found.params_b)}B, ${found.precision}/${found.runtime}, ${found.gpu}${asked.arch === null ? "" : ` (for ${asked.arch})`}, batch ${found.batch}, context ${found.context}`;
      byId("verdict").textContent = found.verdict;
      site.tiles("tiles", tilesOf(found));
      byId("mechanism").textContent = told(found.mechanism);
      site.listed("notes", [...found.notes, ...found.stack.map((stack) => (stack === "not published" ? "Of some sessions the software was not published." : `Measured with ${stack}.`))]);
      anchors(found);
      byId("json").textContent = text = JSON.stringify(documentOf(asked, found), null, 1);
      byId("permalink").value = shareable(values);
      const measuredAs = tables.twins[found.gpu] ?? found.gpu;
      const mine = site.drawn.filter((each) => each.board === measuredAs && each.precision === found.precision && each.runtime === found.runtime);
      const [low, high] = found.ci ?? [null, null];
      const yours = found.delta_pct === null ? [] : [{ curve: "your model", n_b: found.params_b, change: found.delta_pct, low, high }];
      await site.curves(mine, yours);
    } catch (mistake) {
      byId("understood").textContent = "";
      byId("verdict").textContent = site.title(mistake);
      byId("json").textContent = text = "";
      byId("permalink").value = "";
      for (const id of ["tiles", "notes", "anchors", "mechanism"]) byId(id).replaceChildren();
    }
  };
  let waiting = 0;
  const changed = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(show); };

  const ask = () => {
    byId("unread").textContent = "";
    try {
      const { values, unread } = understand(byId("question").value);
      fill(values);
      if (unread.length) byId("unread").textContent = `Not understood: ${unread.join(" ")}`;
      else if (!Object.keys(values).length) byId("unread").textContent = "Nothing of this was understood. Name a size and a board: 7B on RTX 4090, nf4.";
    } catch (mistake) {
      byId("unread").textContent = site.title(mistake);
    }
    return show();
  };
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  for (const id of ["board", "batch", "context", ...PARTS]) byId(id).addEventListener("input", changed);
  site.copies("copy-link", () => byId("permalink").value);
  site.copies("copy-json", () => text);

  const fromLink = () => {
    const link = linked();
    const first = (...names) => names.map((name) => link.get(name)).find((value) => value !== null && value !== "");
    const number = (...names) => { const value = first(...names); return value === undefined ? undefined : Number(value); };
    const values = { params_b: number("size", "params_b"), gpu: first("gpu"), arch: first("arch"), precision: first("prec", "precision"), runtime: first("rt", "runtime"), batch: number("batch"), context: number("ctx", "context") };
    try { fill(values); } catch (mistake) { byId("unread").textContent = site.title(mistake); }
    if (first("q") === undefined) return show();
    byId("question").value = first("q");
    return ask();
  };
  byId("board").value = "NVIDIA GeForce RTX 4090";
  drawn.then(fromLink).then(ready);
  addEventListener("hashchange", fromLink);
})();
