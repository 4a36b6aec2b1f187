"use strict";
// What each page of ours does with its charts and tables. All of them lie in the page: its content
// policy allows no request at all.
const page = (() => {
  const PAGE_ROWS = 50;
  const byId = (id) => document.getElementById(id);
  const json = (element) => JSON.parse(element.textContent);
  const made = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  document.documentElement.classList.add("scripted");

  // ---- charts ----
  const LEAST_WIDTH = 200; // a plot that is narrower shows nothing: its place scrolls instead
  const narrowed = (spec, by) => {
    const width = (own) => Math.max(LEAST_WIDTH, own - by);
    return spec.spec ? { ...spec, spec: { ...spec.spec, width: width(spec.spec.width) } } : { ...spec, width: width(spec.width) };
  };
  const views = {};
  const turns = {};
  const draw = async (name, change = (spec) => spec) => {
    const turn = (turns[name] = (turns[name] ?? 0) + 1); // of several at once the last one stays
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
      if (turn !== turns[name]) return result.finalize();
      if (views[name]) views[name].finalize();
      views[name] = result;
      place.replaceChildren(stage);
    } catch (error) {
      console.warn(`chart ${name} stays as it was drawn: ${error.message}`);
    }
  };
  // Charts that the page's own script draws at once are not drawn twice.
  const charts = [...document.querySelectorAll("[data-chart]:not([data-later])")].map((e) => e.dataset.chart);
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
  const everyRow = new Map([...document.querySelectorAll("table[id]")].map((table) => [table.id, [...table.tBodies[0].rows]]));
  const rows = (id) => everyRow.get(id); // also those that are on no page now
  for (const table of document.querySelectorAll("[data-paged]")) {
    const pages = paged(table);
    if (table.hasAttribute("data-sortable")) sortable(table, pages);
  }

  // A table of plain text; none of it is read as HTML.
  const tabled = (titles, rows) => {
    const table = made("table");
    const head = table.createTHead().insertRow();
    for (const title of titles) head.append(made("th", title, { scope: "col" }));
    const body = table.createTBody();
    for (const cells of rows) {
      const row = body.insertRow();
      for (const cell of cells) row.append(made("td", cell));
    }
    return table;
  };
  const ready = () => document.documentElement.setAttribute("data-ready", "");
  // What stands behind "?" and "#" of the address, as one set of parameters.
  const linked = () => new URLSearchParams([location.search.slice(1), location.hash.slice(1)].filter(Boolean).join("&"));
  return { byId, json, made, draw, drawn, rows, values, tabled, ready, linked };
})();
