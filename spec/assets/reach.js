// What scrolls can be reached by the keyboard: code blocks that are wider than the page get into the order of focus.
"use strict";

(() => {
  const reach = () => {
    for (const code of document.querySelectorAll(".md-typeset pre > code"))
      if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  };
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();
