"use strict";
// Crossover: the curves of one arm, of all boards or of one.
(() => {
  const { byId, made, drawn, ready, linked } = page;
  const [arm, board] = [byId("arm"), byId("board")];
  const named = (each) => `${each.precision} ${each.runtime}`;
  const arms = [...new Set(site.drawn.map(named))];
  arm.append(...arms.map((name) => made("option", name)));
  const boards = () => {
    const before = board.value;
    const here = site.drawn.filter((each) => named(each) === arm.value).map((each) => each.board);
    board.replaceChildren(made("option", "all", { value: "" }), ...here.map((name) => made("option", name)));
    if (here.includes(before)) board.value = before;
  };
  const show = () => site.curves(site.drawn.filter((each) => named(each) === arm.value && (board.value === "" || each.board === board.value)));
  arm.value = "NF4 eager";
  site.choose(arm, linked().get("arm") ?? "");
  boards();
  site.choose(board, linked().get("gpu") ?? "");
  arm.addEventListener("change", () => { boards(); show(); });
  board.addEventListener("change", show);
  byId("choice").addEventListener("submit", (event) => event.preventDefault());
  drawn.then(show).then(ready);
})();
