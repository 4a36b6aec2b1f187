"use strict";
// The report page's own script: what its charts show besides what they were drawn with.
(() => {
  const { byId, json, made, draw, drawn, ready } = page;

  // ---- power over time ----
  if (byId("visits")) {
    const visits = json(byId("visits"));
    const select = byId("visit");
    visits.forEach((visit, place) => select.append(made("option", visit.name, { value: place })));
    select.addEventListener("change", () => {
      const { s, w, parts } = visits[select.value];
      const points = s.map((at, place) => ({ s: at, w: w[place] }));
      draw("power", (spec) => ({ ...spec, datasets: { points, parts } }));
    });
  }

  // ---- crossover ----
  const curves = json(byId("curves"));
  const published = json(byId("published"));
  const background = byId("background");
  const overlay = () => {
    if (!background) return;
    const behind = background.checked ? published.flatMap((curve) => curve.points) : [];
    draw("crossover", (spec) => ({ ...spec, datasets: { ...spec.datasets, published: behind, yours: dropped.yours() } }));
  };
  const dropped = dropZone([...curves, ...published], overlay);
  if (background) background.addEventListener("change", overlay);

  drawn.then(dropped.show).then(ready);
})();
