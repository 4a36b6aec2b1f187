"use strict";
// What the pages of the site share: addresses, copying, tiles, curves. Needs page.js.
const site = (() => {
  const { byId, json, made, draw } = page;
  const PAGES = { measured: "index.html", run: "run.html", estimate: "model.html", optimize: "optimize.html" };

  // Links of the published site name a tab: each has a page here.
  const moved = () => {
    const target = PAGES[page.linked().get("tab")];
    const here = location.pathname.split("/").pop() || "index.html";
    if (!target || target === here || here !== "index.html") return false;
    location.replace(`${target}${location.search}${location.hash}`);
    return true;
  };
  const link = (values) => {
    const told = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
    return `${location.href.split(/[?#]/)[0]}#${new URLSearchParams(told)}`;
  };
  const copies = (button, text) => {
    byId(button).addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text());
        byId("copied").textContent = "Copied.";
      } catch {
        byId("copied").textContent = `This browser does not let pages copy: ${text()}`;
      }
    });
  };
  const tiles = (id, all) => {
    byId(id).replaceChildren(...all.map(([title, value, below, kind]) => {
      const tile = made("div", undefined, kind ? { class: kind } : {});
      tile.append(made("dt", title), made("dd", value));
      if (below) tile.append(made("dd", below, { class: "quiet" }));
      return tile;
    }));
  };
  const listed = (id, lines) => byId(id).replaceChildren(...lines.map((line) => made("li", line)));
  const numbered = (id) => {
    const field = byId(id);
    if (field.value.trim() === "") return field.validity.badInput ? NaN : null;
    return Number(field.value);
  };
  // The chart of curves shows these of ``drawn``, and points of the reader's.
  const curves = (drawn, yours = []) => {
    const all = (name) => drawn.flatMap((each) => each[name]);
    const datasets = { fit: all("fit"), sizes: all("sizes"), sessions: all("sessions"), yours };
    const told = (value) => (Number.isFinite(value) ? String(value) : "–");
    const rows = datasets.sizes.map((each) => [each.curve, ...["n_b", "change", "low", "high", "n"].map((name) => told(each[name]))]);
    byId("numbers-curves").replaceChildren(page.tabled(["board and arm", "billion parameters", "change in %", "low", "high", "sessions"], rows));
    return draw("curves", (spec) => ({ ...spec, datasets }));
  };
  // A size as a number and as a slider on a logarithmic scale, which follow each other.
  const sizes = (changed) => {
    const [field, slider] = [byId("size"), byId("slider")];
    slider.addEventListener("input", () => { field.value = String(Number((10 ** slider.value).toPrecision(2))); changed(); });
    field.addEventListener("input", () => { follow(); changed(); });
    const follow = () => {
      if (field.valueAsNumber > 0) slider.value = String(Math.log10(field.valueAsNumber));
      slider.setAttribute("aria-valuetext", `${field.value} billion parameters`);
    };
    return follow;
  };
  // Choose what a link names; a name that the list does not hold is left to the caller.
  const choose = (select, value) => {
    const found = [...select.options].find((option) => option.value.toLowerCase() === value.toLowerCase());
    if (found) select.value = found.value;
    return Boolean(found);
  };
  const rounded = (value) => {
    if (typeof value === "number" && !Number.isInteger(value)) return Number(value.toPrecision(4));
    if (Array.isArray(value)) return value.map(rounded);
    if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, rounded(inner)]));
    return value;
  };
  const title = (mistake) => (mistake instanceof Mistake ? mistake.message : `This page failed: ${mistake.message}`);
  return { moved, link, copies, tiles, listed, numbered, curves, sizes, choose, rounded, title, drawn: byId("drawn") ? json(byId("drawn")) : [] };
})();
