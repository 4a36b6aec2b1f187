"use strict";
// Run it yourself: what is dropped is laid over the curves of its precision.
(() => {
  const { drawn, ready } = page;
  const overlay = () => {
    const yours = dropped.yours();
    const seen = new Set(dropped.precisions());
    const beside = site.drawn.filter((each) => seen.has(each.precision) && each.runtime === "eager");
    return site.curves(beside.length ? beside : site.drawn.filter((each) => each.precision === "NF4" && each.runtime === "eager"), yours);
  };
  const dropped = dropZone(site.drawn, overlay);
  drawn.then(dropped.show).then(ready);
})();
