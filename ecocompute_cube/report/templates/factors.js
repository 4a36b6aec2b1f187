"use strict";
// Cost and carbon: the kilowatt-hours of the table "arms" times a factor that the reader gives.
(() => {
  const { byId, rows, values, tabled } = page;
  const kwhColumn = [...byId("arms").tHead.rows[0].cells].findIndex((c) => c.textContent.startsWith("kWh"));
  const costs = () => {
    const [price, carbon] = [byId("price").valueAsNumber, byId("carbon").valueAsNumber];
    const chosen = byId("known").selectedOptions[0];
    const source = chosen.value && Number(chosen.value) === carbon ? ` Source: ${chosen.dataset.source}.` : "";
    const said = [];
    if (price >= 0) said.push(`${price} a kWh`);
    if (carbon >= 0) said.push(`${carbon} g CO₂ a kWh.${source}`);
    byId("factor-source").textContent = said.length ? `Factors: ${said.join(", ")}` : "";
    if (!said.length) return byId("costs").replaceChildren();
    const titles = ["model", "arm", "kWh per 1M tokens", ...(price >= 0 ? ["price per 1M tokens"] : []), ...(carbon >= 0 ? ["g CO₂ per 1M tokens"] : [])];
    const lines = rows("arms").filter((row) => values(row, kwhColumn) !== null).map((row) => {
      const kwh = values(row, kwhColumn);
      const figures = [kwh, ...(price >= 0 ? [kwh * price] : []), ...(carbon >= 0 ? [kwh * carbon] : [])];
      return [row.cells[0].textContent, row.cells[1].textContent, ...figures.map((f) => f.toPrecision(3))];
    });
    byId("costs").replaceChildren(tabled(titles, lines));
  };
  byId("factors").addEventListener("submit", (event) => event.preventDefault());
  byId("known").addEventListener("change", () => { byId("carbon").value = byId("known").value; costs(); });
  for (const id of ["price", "carbon"]) byId(id).addEventListener("input", costs);
})();
