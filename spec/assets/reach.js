// What scrolls can be reached by the keyboard: code, tables and figures that are wider than the page get into the order
// of focus. The theme wraps tables while the page loads, and sizes change where somebody turns a telephone.
"use strict";

(() => {
  const WIDE = ".md-typeset pre > code, .md-typeset__scrollwrap, figure.i2s-wide, .pg-dialects";
  const LONG = 16; // characters; shorter names stay on one line

  const reach = () => {
    for (const box of document.querySelectorAll(WIDE)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else if (box.tabIndex === 0) box.removeAttribute("tabindex");
    }
  };

  /** Long names at the head of a row may be broken behind a point or a line, where the table is wide. */
  const breakable = () => {
    for (const name of document.querySelectorAll(".md-typeset td:first-child > code")) {
      const parts = name.textContent.split(/(?<=[._])(?=[a-z])/);
      if (name.childElementCount === 0 && parts.length > 1 && name.textContent.length > LONG)
        name.replaceChildren(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
    }
  };

  addEventListener("load", () => {
    breakable();
    reach();
    new MutationObserver(reach).observe(document.querySelector(".md-content") ?? document.body, { childList: true, subtree: true });
  });
  addEventListener("resize", reach);
})();
