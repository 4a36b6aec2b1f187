"use strict";
// Documents that are dropped on a page, and points that its link carries: read here, checked
// against their whole schema, laid beside curves. They go nowhere.
const dropZone = (curves, changed) => {
  const { byId, json, made, tabled } = page;
  const MOST_BYTES = 2 * 1024 * 1024; // of one dropped file; ours are some 30 kB
  const MOST_FILES = 200;
  const points = []; // dropped, or carried by the link
  const problems = [];
  const at = (object, path) => path.split(".").reduce((o, key) => (o === null || o === undefined ? undefined : o[key]), object);
  const text = (value, most = 80) => (typeof value === "string" ? value.slice(0, most) : undefined);
  const schemas = json(byId("schemas"));
  const MOST_WRONG = 4; // sentences; one mistake can make many
  const check = (document_) => {
    const version = /^ecocompute-energy\/([12])\./.exec(at(document_, "schema_version"));
    if (!version) throw new Error("it is no energy.json: its schema_version is not ecocompute-energy/1.x or 2.x");
    const wrong = schemaErrors(schemas[version[1]], document_);
    const more = wrong.length > MOST_WRONG ? `; and ${wrong.length - MOST_WRONG} more` : "";
    if (wrong.length) throw new Error(`it fails its schema: ${wrong.slice(0, MOST_WRONG).map((line) => line.slice(0, 200)).join("; ")}${more}; ecocompute validate tells all`);
  };
  const read = (document_) => {
    check(document_);
    const energy = at(document_, "results.energy_per_token_mj");
    return {
      model: text(at(document_, "workload.model_name")) ?? "unnamed",
      N: at(document_, "workload.params_b"),
      a: text(at(document_, "system_under_test.gpu_arch")) ?? "",
      p: text(at(document_, "workload.precision")) ?? "",
      r: text(at(document_, "workload.runtime")) ?? "eager", // the published protocol knows no other
      e: at(document_, "results.vs_fp16_energy_pct"),
      b: text(at(document_, "results.basis")) ?? "",
      g: text(at(document_, "system_under_test.gpu")) ?? "",
      mj: energy,
    };
  };
  const encode = (point) => {
    const { model, N, a, p, e, b, g, r } = point;
    const bytes = new TextEncoder().encode(JSON.stringify({ m: model, N, a, p, e, b, g, ...(r === "eager" ? {} : { r }) }));
    return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  };
  const decode = (coded) => {
    const bytes = Uint8Array.from(atob(coded.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const given = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (typeof given !== "object" || given === null) throw new Error("it holds no point");
    const number = (value) => (Number.isFinite(value) ? value : null);
    return {
      model: text(given.m ?? given.model) ?? "unnamed",
      N: number(given.N ?? given.params_b),
      a: text(given.a ?? given.arch ?? given.gpu_arch) ?? "",
      p: text(given.p ?? given.precision) ?? "",
      r: text(given.r ?? given.runtime) ?? "eager",
      e: number(given.e ?? given.dE ?? given.vs_fp16_energy_pct),
      b: text(given.b ?? given.basis) ?? "",
      g: text(given.g ?? given.gpu) ?? "",
      mj: null,
    };
  };
  const alike = (a, b) => a.trim().toLowerCase() === b.trim().toLowerCase();
  // Where a point lies in the band of the curve for its precision, runtime and board.
  const standing = (point) => {
    if (!Number.isFinite(point.e) || !(point.N > 0)) return "no change or no size to compare";
    const mine = curves.filter((c) => c.precision === point.p && c.runtime === point.r && alike(c.board, point.g));
    if (!mine.length) return "no curve for its precision, runtime and GPU";
    const said = mine.map((curve) => {
      if (!curve.band.length) return "too few sizes for a curve";
      const after = curve.band.findIndex(([size]) => size >= point.N);
      if (after < 0 || point.N < curve.band[0][0]) return "beyond the sizes measured";
      const [right, left] = [curve.band[after], curve.band[Math.max(0, after - 1)]];
      if ([right[1], right[2], left[1], left[2]].some((end) => end === null)) return "no band: one replicate a size";
      const share = right[0] === left[0] ? 1 : Math.log(point.N / left[0]) / Math.log(right[0] / left[0]);
      const [low, high] = [1, 2].map((end) => left[end] + share * (right[end] - left[end]));
      return low <= point.e && point.e <= high ? "consistent" : `outside the band (${low.toFixed(1)} to ${high.toFixed(1)} %)`;
    });
    return said.find((word) => word === "consistent") ?? said.find((word) => word.startsWith("outside")) ?? said[0];
  };

  const shown = (value, digits = 3) => (Number.isFinite(value) ? value.toPrecision(digits) : "–");
  const listed = () => {
    const place = byId("dropped");
    place.replaceChildren();
    if (points.length) {
      const titles = ["model", "billion parameters", "GPU", "precision", "mJ per token", "against FP16, %", "basis", "beside the curves"];
      const lines = points.map((point) => [point.model, shown(point.N), point.g || point.a || "–", point.p, shown(point.mj, 4), shown(point.e), point.b, standing(point)]);
      place.append(tabled(titles, lines));
      const coded = points.filter((point) => Number.isFinite(point.e) && Number.isFinite(point.N)).map((point) => `overlay=${encode(point)}`);
      byId("link-line").hidden = !coded.length;
      byId("link").value = coded.length ? `${location.href.split(/[?#]/)[0]}#tab=run&${coded.join("&")}` : "";
    }
    for (const problem of problems) place.append(made("p", problem, { class: "no" }));
    if (points.length) changed();
  };
  const take = async (files) => {
    for (const file of [...files].slice(0, MOST_FILES)) {
      try {
        if (file.size > MOST_BYTES) throw new Error(`it has ${(file.size / 2 ** 20).toFixed(0)} MiB; an energy.json has some 30 kB`);
        let data;
        const content = await file.text().catch(() => { throw new Error("it cannot be read; drop files, not a folder"); });
        try { data = JSON.parse(content); } catch { throw new Error("it is no JSON (NaN and Infinity are not)"); }
        points.push(read(data));
      } catch (error) {
        problems.push(`${file.name}: ${error.message}.`);
      }
    }
    if (files.length > MOST_FILES) problems.push(`Only the first ${MOST_FILES} files were read.`);
    listed();
  };
  const zone = byId("drop");
  byId("files").addEventListener("change", async (event) => {
    await take(event.target.files);
    event.target.value = ""; // so that the same file can be taken again
  });
  for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", over);
      if (name === "drop") take(event.dataTransfer.files);
    });
  }
  for (const coded of page.linked().getAll("overlay")) {
    try { points.push(decode(coded)); } catch { problems.push("A point in the link cannot be read."); }
  }
  // Points as the crossover chart draws them.
  const yours = () => points
    .filter((point) => Number.isFinite(point.N) && point.N > 0 && Number.isFinite(point.e))
    .map((point) => ({ curve: `yours: ${point.model}, ${point.p}`, n_b: point.N, change: point.e }));
  const show = () => { if (points.length || problems.length) listed(); };
  const arms = () => points.map(({ p, r, g }) => ({ precision: p, runtime: r, board: g }));
  return { show, yours, arms };
};
