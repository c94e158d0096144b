// Makes scrollable parts reachable by keyboard: code, tables and figures that are wider than the page get a tab stop. This
// is repeated because the theme wraps tables while the page loads, and because sizes change when a phone is turned.
"use strict";

(() => {
  const WIDE = ".md-typeset pre > code, .md-typeset__scrollwrap, figure.i2s-wide, .pg-dialects";
  const LONG = 16; // characters; shorter names are not broken

  const reach = () => {
    for (const box of document.querySelectorAll(WIDE)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else if (box.tabIndex === 0) box.removeAttribute("tabindex");
    }
  };

  /** Long names in the first column may be broken after a dot or an underscore. */
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
