"use strict";
// A page whose charts and tables need no more than page.js.
page.drawn.then(page.ready);
