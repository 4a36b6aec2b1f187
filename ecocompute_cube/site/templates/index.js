"use strict";
// Tested models: a board and a model are chosen, and the chart and the sentences are theirs.
(() => {
  if (site.moved()) return;
  const { byId, json, made, draw, drawn, ready, linked } = page;
  const tested = json(byId("tested"));
  const [board, model] = [byId("board"), byId("model")];
  const boards = [...new Set(tested.map((each) => each.gpu))];
  board.append(...boards.map((name) => made("option", name)));
  const models = () => {
    const before = model.value;
    const here = tested.filter((each) => each.gpu === board.value);
    model.replaceChildren(...here.map((each) => made("option", each.model)));
    if (here.some((each) => each.model === before)) model.value = before;
  };
  const chosen = () => tested.find((each) => each.gpu === board.value && each.model === model.value);
  const show = () => {
    const { datasets, says } = chosen();
    site.listed("says", says);
    const rows = datasets.bars.map((bar) => [bar.arm, words.short(bar.kj), String(bar.n)]);
    byId("numbers-tested").replaceChildren(page.tabled(["arm", "kJ per 1M tokens", "sessions"], rows));
    return draw("tested", (spec) => ({ ...spec, datasets }));
  };
  const asked = linked();
  board.value = boards.find((name) => name.toLowerCase().includes((asked.get("gpu") ?? "RTX 5090").toLowerCase())) ?? boards[0];
  models();
  const named = [...model.options].find((option) => option.value.toLowerCase() === (asked.get("m") ?? "Qwen2.5-3B").toLowerCase());
  if (named) model.value = named.value;
  board.addEventListener("change", () => { models(); show(); });
  model.addEventListener("change", show);
  byId("choice").addEventListener("submit", (event) => event.preventDefault());
  site.copies("copy-brief", () => chosen().brief);
  site.copies("copy-link", () => site.link({ gpu: board.value, m: model.value }));
  drawn.then(show).then(ready);
})();
