"use strict";
// The page's own script. Charts, tables and factors work on what lies in the page; files that are
// dropped are read here and go nowhere: the content policy allows no request at all.
(() => {
  const PAGE_ROWS = 50;
  const MOST_BYTES = 2 * 1024 * 1024; // of one dropped file; ours are some 30 kB
  const MOST_FILES = 200;
  const byId = (id) => document.getElementById(id);
  const json = (element) => JSON.parse(element.textContent);
  const made = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  document.documentElement.classList.add("scripted");

  const points = []; // dropped, or carried by the link
  const problems = [];

  // ---- charts ----
  const LEAST_WIDTH = 200; // a plot that is narrower shows nothing: its place scrolls instead
  const narrowed = (spec, by) => {
    const width = (own) => Math.max(LEAST_WIDTH, own - by);
    return spec.spec ? { ...spec, spec: { ...spec.spec, width: width(spec.spec.width) } } : { ...spec, width: width(spec.width) };
  };
  const views = {};
  const draw = async (name, change = (spec) => spec) => {
    const place = document.querySelector(`[data-chart="${name}"]`);
    const spec = change(json(document.querySelector(`[data-spec="${name}"]`)));
    const stage = made("div", undefined, { "aria-hidden": "true" }); // the place around it says what it is
    try {
      // ast: expressions are interpreted, since the policy forbids eval.
      const embed = (fitted) => vegaEmbed(stage, fitted, { ast: true, renderer: "svg", actions: false, logLevel: 1 });
      let result = await embed(spec);
      const beyond = Number(stage.querySelector("svg").getAttribute("width")) - place.clientWidth;
      if (beyond > 0) {
        result.finalize();
        result = await embed(narrowed(spec, beyond));
      }
      if (views[name]) views[name].finalize();
      views[name] = result;
      place.replaceChildren(stage);
    } catch (error) {
      console.warn(`chart ${name} stays as it was drawn: ${error.message}`);
    }
  };
  const charts = [...document.querySelectorAll("[data-chart]")].map((e) => e.dataset.chart);
  const drawn = Promise.all(charts.map((name) => draw(name)));

  // ---- tables ----
  const values = (row, column) => {
    const cell = row.cells[column];
    const number = Number(cell.dataset.value);
    if (cell.dataset.value === undefined) return null;
    return Number.isNaN(number) ? cell.dataset.value : number;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null); // nothing goes last
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  const paged = (table) => {
    const body = table.tBodies[0];
    const state = { rows: [...body.rows], page: 0 };
    const bar = made("p", undefined, { class: "script-only" });
    const told = made("span", "", { "aria-live": "polite" });
    const step = (label, by) => {
      const button = made("button", label, { type: "button", class: "plain" });
      button.addEventListener("click", () => { state.page += by; show(); });
      return button;
    };
    const [back, on] = [step("previous", -1), step("next", 1)];
    bar.append(back, " ", told, " ", on);
    const show = () => {
      const last = Math.max(0, Math.ceil(state.rows.length / PAGE_ROWS) - 1);
      state.page = Math.min(Math.max(state.page, 0), last);
      const start = state.page * PAGE_ROWS;
      body.replaceChildren(...state.rows.slice(start, start + PAGE_ROWS));
      told.textContent = `rows ${start + 1} to ${Math.min(start + PAGE_ROWS, state.rows.length)} of ${state.rows.length}`;
      back.disabled = state.page === 0;
      on.disabled = state.page === last;
    };
    if (state.rows.length > PAGE_ROWS) {
      table.parentElement.after(bar);
      show();
      const all = () => body.replaceChildren(...state.rows);
      addEventListener("beforeprint", all);
      addEventListener("afterprint", show);
    }
    return { state, show: state.rows.length > PAGE_ROWS ? show : () => body.replaceChildren(...state.rows) };
  };
  const sortable = (table, { state, show }) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = made("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sign = up ? 1 : -1;
        state.rows.sort((a, b) => {
          const [left, right] = [values(a, column), values(b, column)];
          const order = compare(left, right);
          return left === null || right === null ? order : sign * order;
        });
        state.page = 0;
        show();
      });
    });
  };
  const arms = byId("arms");
  const armRows = [...arms.tBodies[0].rows];
  for (const table of document.querySelectorAll("[data-paged]")) {
    const pages = paged(table);
    if (table.hasAttribute("data-sortable")) sortable(table, pages);
  }

  // ---- power over time ----
  if (byId("visits")) {
    const visits = json(byId("visits"));
    const select = byId("visit");
    visits.forEach((visit, place) => select.append(made("option", visit.name, { value: place })));
    select.addEventListener("change", () => {
      const { points, parts } = visits[select.value];
      draw("power", (spec) => ({ ...spec, datasets: { points, parts } }));
    });
  }

  // ---- crossover ----
  const curves = json(byId("curves"));
  const published = json(byId("published"));
  const background = byId("background");
  const overlay = () => {
    if (!background) return;
    const yours = points
      .filter((point) => Number.isFinite(point.N) && point.N > 0 && Number.isFinite(point.e))
      .map((point) => ({ curve: `yours: ${point.model}, ${point.p}`, n_b: point.N, change: point.e }));
    const behind = background.checked ? published.flatMap((curve) => curve.points) : [];
    draw("crossover", (spec) => ({ ...spec, datasets: { ...spec.datasets, published: behind, yours } }));
  };
  if (background) background.addEventListener("change", overlay);
  const alike = (a, b) => a.trim().toLowerCase() === b.trim().toLowerCase();
  // Where a point lies in the band of the curve for its precision, runtime and board.
  const standing = (point) => {
    if (!Number.isFinite(point.e) || !(point.N > 0)) return "no change or no size to compare";
    const mine = [...curves, ...published].filter((c) => c.precision === point.p && c.runtime === point.r && alike(c.board, point.g));
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

  // ---- cost and carbon ----
  const kwhColumn = [...arms.tHead.rows[0].cells].findIndex((c) => c.textContent.startsWith("kWh"));
  const costs = () => {
    const [price, carbon] = [byId("price").valueAsNumber, byId("carbon").valueAsNumber];
    const chosen = byId("known").selectedOptions[0];
    const source = chosen.value && Number(chosen.value) === carbon ? ` Source: ${chosen.dataset.source}.` : "";
    const said = [];
    if (price >= 0) said.push(`${price} a kWh`);
    if (carbon >= 0) said.push(`${carbon} g CO₂ a kWh.${source}`);
    byId("factor-source").textContent = said.length ? `Factors: ${said.join(", ")}` : "";
    if (!said.length) return byId("costs").replaceChildren();
    const table = made("table");
    const head = table.createTHead().insertRow();
    const titles = ["model", "arm", "kWh per 1M tokens", ...(price >= 0 ? ["price per 1M tokens"] : []), ...(carbon >= 0 ? ["g CO₂ per 1M tokens"] : [])];
    titles.forEach((title) => head.append(made("th", title, { scope: "col" })));
    const body = table.createTBody();
    for (const row of armRows) {
      const kwh = values(row, kwhColumn);
      if (kwh === null) continue;
      const line = body.insertRow();
      const figures = [kwh, ...(price >= 0 ? [kwh * price] : []), ...(carbon >= 0 ? [kwh * carbon] : [])];
      for (const text of [row.cells[0].textContent, row.cells[1].textContent, ...figures.map((f) => f.toPrecision(3))]) line.append(made("td", text));
    }
    byId("costs").replaceChildren(table);
  };
  byId("factors").addEventListener("submit", (event) => event.preventDefault());
  byId("known").addEventListener("change", () => { byId("carbon").value = byId("known").value; costs(); });
  for (const id of ["price", "carbon"]) byId(id).addEventListener("input", costs);

  // ---- run it yourself ----
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
  const shown = (value, digits = 3) => (Number.isFinite(value) ? value.toPrecision(digits) : "–");
  const listed = () => {
    const place = byId("dropped");
    place.replaceChildren();
    if (points.length) {
      const table = made("table");
      const head = table.createTHead().insertRow();
      for (const title of ["model", "billion parameters", "GPU", "precision", "mJ per token", "against FP16, %", "basis", "beside the curves"]) head.append(made("th", title, { scope: "col" }));
      const body = table.createTBody();
      for (const point of points) {
        const row = body.insertRow();
        for (const cell of [point.model, shown(point.N), point.g || point.a || "–", point.p, shown(point.mj, 4), shown(point.e), point.b, standing(point)]) row.append(made("td", cell));
      }
      place.append(table);
      const coded = points.filter((point) => Number.isFinite(point.e) && Number.isFinite(point.N)).map((point) => `overlay=${encode(point)}`);
      byId("link-line").hidden = !coded.length;
      byId("link").value = coded.length ? `${location.href.split(/[?#]/)[0]}#tab=run&${coded.join("&")}` : "";
    }
    for (const problem of problems) place.append(made("p", problem, { class: "no" }));
    if (points.length) overlay();
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
  for (const part of [location.search.slice(1), location.hash.slice(1)]) {
    for (const coded of new URLSearchParams(part).getAll("overlay")) {
      try { points.push(decode(coded)); } catch { problems.push("A point in the link cannot be read."); }
    }
  }
  drawn.then(() => {
    if (points.length || problems.length) listed();
  }).then(() => document.documentElement.setAttribute("data-ready", ""));
})();
