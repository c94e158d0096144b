// What the pages need besides the theme. Scrollable parts are reachable by keyboard: code, tables and figures that are wider
// than the page get a tab stop; this is repeated because the theme wraps tables while the page loads, and because sizes
// change when a phone is turned. On phones, rows of wide tables of text stand as cards (spec.css). Pages with many rows have
// a filter. The search looks for the words that were typed, and only for the last one as the beginning of a word.
"use strict";

(() => {
  const WIDE = ".md-typeset pre > code, .md-typeset__scrollwrap, figure.i2s-wide, .pg-dialects";
  const LONG = 16; // characters; shorter names are not broken
  const WORDS = 28; // characters; a cell that is longer holds a text
  const MANY = 100; // rows; a page with more of them has a filter
  const QUERY = 2; // the theme's message that asks its worker for a search

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

  /** Tables of four columns and more, with texts in them, know for each cell what heads it. */
  const labelled = () => {
    for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
      const rows = [...table.querySelectorAll("tbody tr")];
      const isText = (cell) => cell.textContent.length > WORDS;
      if (heads.length < 4 || rows.filter((row) => [...row.cells].some(isText)).length * 2 < rows.length) continue;
      table.parentElement.classList.add("i2s-cards");
      for (const row of rows)
        for (const [i, cell] of [...row.cells].entries()) {
          cell.dataset.head = heads[i];
          cell.classList.toggle("i2s-text", isText(cell));
        }
    }
  };

  /** A box that leaves only the rows that contain what is typed. */
  const filtered = () => {
    const rows = [...document.querySelectorAll(".md-typeset tbody tr")];
    const title = document.querySelector(".md-content h1");
    if (rows.length < MANY || title === null) return;
    const box = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter the rows", className: "i2s-filter" });
    box.setAttribute("aria-label", "Filter the rows of the tables");
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
    title.after(box);
  };

  /** The theme takes every word as the beginning of one: of `not`, that finds notations. A boost of 1 makes it a whole word. */
  const wholeWords = (query) => query.replace(/(^|\s)([\p{L}\p{N}_.]+)(?=\s)/gu, "$1$2^1");
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...more) {
    const isQuery = message?.type === QUERY && typeof message.data === "string";
    return post.call(this, isQuery ? { ...message, data: wholeWords(message.data) } : message, ...more);
  };

  addEventListener("load", () => {
    breakable();
    labelled();
    filtered();
    reach();
    new MutationObserver(reach).observe(document.querySelector(".md-content") ?? document.body, { childList: true, subtree: true });
  });
  addEventListener("resize", reach);
})();
