// Sorting, filtering and the magnifier of the page that `i2s lint --format html` makes. All data are read from the page
// itself, and everything is put into it as text: nothing here makes markup.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDE = 1000, TALL = 84;
  const all = (selector, inside) => [...inside.querySelectorAll(selector)];
  const hex = (n) => "0x" + Math.round(n).toString(16);
  const clamp = (n, low, high) => Math.min(Math.max(n, low), high);

  function make(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function html(name, text, className) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  // --- folded parts ---

  /** Open whatever an element is folded into. */
  function reveal(element) {
    for (let outer = element; outer; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
  }

  function go(element) {
    reveal(element);
    element.scrollIntoView({ block: "center" });
  }

  function follow() {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (target) { reveal(target); target.scrollIntoView(); }
  }

  // --- the table of tensors ---

  function sortable(table) {
    const body = table.tBodies[0], heads = all("thead th", table);
    const key = (row, column) => {
      const cell = row.cells[column];
      if (!("v" in cell.dataset)) return (cell.querySelector("summary") || cell).textContent;
      if (cell.dataset.v === "none") return NaN;
      return cell.dataset.v === "-inf" ? -Infinity : Number(cell.dataset.v);
    };
    heads.forEach((head, column) => {
      const button = html("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        const rows = [...body.rows].map((row, place) => ({ row, place, key: key(row, column) }));
        rows.sort((a, b) => {
          if (typeof a.key === "string") return sign * a.key.localeCompare(b.key, "en", { numeric: true }) || a.place - b.place;
          if (Number.isNaN(a.key) || Number.isNaN(b.key)) return Number.isNaN(a.key) - Number.isNaN(b.key) || a.place - b.place;
          return a.key === b.key ? a.place - b.place : sign * (a.key < b.key ? -1 : 1);
        });
        body.append(...rows.map((each) => each.row));
      });
    });
  }

  function filters(tools, table) {
    const field = (name) => tools.querySelector(`[data-do=${name}]`);
    const rows = all("tbody tr", table), said = tools.querySelector("output");
    const apply = () => {
      const words = field("name").value.toLowerCase().split(/\s+/).filter(Boolean);
      const type = field("type").value, found = field("found").checked;
      let shown = 0;
      for (const row of rows) {
        const name = row.cells[1].querySelector("summary").textContent.toLowerCase();
        const keep = words.every((word) => name.includes(word)) && (!type || row.cells[2].textContent === type)
          && (!found || row.cells[9].textContent !== "");
        row.hidden = !keep;
        shown += keep;
      }
      said.textContent = shown === rows.length ? `${rows.length} tensors` : `${shown} of ${rows.length} tensors`;
    };
    tools.addEventListener("input", apply);
    apply();
  }

  // --- the map and its magnifier ---

  function magnifier(part, findings) {
    const regions = all(".regions tbody tr", part).map((row, place) => {
      const start = Number(row.cells[0].dataset.v), length = Number(row.cells[1].textContent.replaceAll(",", ""));
      return { place, row, start, length, stop: start + length, kind: row.className, label: row.cells[2].textContent,
        bytes: row.cells[0].textContent };
    });
    const size = regions[regions.length - 1].stop;
    const box = part.querySelector(".window"), ends = all(".ends span", part), chosen = part.querySelector(".chosen");
    const list = part.querySelector("datalist"), find = part.querySelector("[data-do=find]");
    const marks = new Map(all("svg.map path[data-i]", part).map((path) => [Number(path.dataset.i), path]));
    const svg = make("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const words = make("svg", { "aria-hidden": "true" });
    box.append(svg);
    box.setAttribute("aria-valuemax", regions.length);
    let low = 0, high = size, here = -1;

    const at = (byte) => { // the region that a byte lies in
      let first = 0, last = regions.length - 1;
      while (first < last) {
        const middle = (first + last + 1) >> 1;
        if (regions[middle].start <= byte) first = middle; else last = middle - 1;
      }
      return first;
    };

    function look(from, to) {
      const span = clamp(to - from, Math.min(16, size), size) || 1;
      low = clamp(from + (to - from - span) / 2, 0, Math.max(0, size - span));
      high = low + span;
      draw();
    }

    function draw() {
      const scale = WIDE / (high - low), drawn = [], names = [];
      const pixels = box.clientWidth || WIDE;
      let taken = -1;
      for (let i = at(low); i < regions.length && regions[i].start <= high; i++) {
        const region = regions[i];
        const x = (Math.max(region.start, low) - low) * scale;
        let width = (Math.min(region.stop, high) - low) * scale - x;
        if (width < 0) continue;
        if (width < 1 && i !== here) { // too thin: one mark for all that lie on it
          if (x < taken) continue;
          width = 1;
          taken = x + 1;
        }
        const rect = make("rect", { x, y: 0, width: Math.max(width, i === here ? 2 : 1), height: TALL - 14, "data-i": i,
          class: region.kind + (i === here ? " here" : "") });
        rect.append(make("title", {}, `${region.label}\n${region.bytes}`));
        drawn.push(rect);
        const room = (width / WIDE) * pixels;
        if (room > 46) names.push([x + 4, room, region.label]);
      }
      for (const finding of findings) {
        if (finding.stop < low || finding.start > high) continue;
        const x = clamp((finding.start - low) * scale, 0, WIDE - 8);
        const width = Math.max((Math.min(finding.stop, high) - low) * scale - x, 8);
        const mark = make("rect", { x, y: TALL - 11, width, height: 9, class: "mark " + finding.severity });
        mark.append(make("title", {}, finding.title));
        mark.addEventListener("click", () => go(finding.element));
        drawn.push(mark);
      }
      svg.replaceChildren(...drawn);
      label(names, pixels);
      ends[0].textContent = hex(low);
      ends[1].textContent = hex(high);
    }

    /** Names inside regions that have room for them; they are not stretched with the strip. */
    function label(names, pixels) {
      words.replaceChildren();
      for (const [x, room, name] of names) {
        const fits = Math.floor((room - 8) / 6.6);
        if (fits < 5) continue;
        const shown = name.length > fits ? name.slice(0, fits - 1) + "…" : name;
        words.append(make("text", { x: (x / WIDE) * pixels, y: (TALL - 14) / 2 + 4 }, shown));
      }
      svg.after(words);
    }

    function choose(place, zoom = true) {
      const before = marks.get(here);
      if (before) before.classList.remove("here");
      if (regions[here]) regions[here].row.removeAttribute("aria-current");
      here = clamp(place, 0, regions.length - 1);
      const region = regions[here], mark = marks.get(here);
      if (mark) { mark.classList.add("here"); mark.parentNode.append(mark); }
      region.row.setAttribute("aria-current", "true");
      const share = size ? (100 * region.length) / size : 0;
      const about = html("p");
      about.append(html("strong", region.label), html("code", region.bytes),
        ` ${region.length.toLocaleString("en")} bytes, ${share >= 0.01 ? share.toFixed(2) : "less than 0.01"} % of the file, `
        + `region ${here + 1} of ${regions.length}`);
      const near = findings.filter((f) => f.start < region.stop && f.stop > region.start);
      const links = html("p");
      for (const finding of near.slice(0, 8)) {
        const link = html("a", finding.title);
        link.href = "#" + finding.element.id;
        links.append(link, " ");
      }
      if (near.length > 8) links.append(`and ${near.length - 8} more findings`);
      chosen.replaceChildren(about, links);
      box.setAttribute("aria-valuenow", here + 1);
      box.setAttribute("aria-valuetext", `${region.label}, ${region.bytes}`);
      if (zoom) {
        const span = Math.max(region.length / 0.6, 64);
        const middle = region.start + region.length / 2;
        look(middle - span / 2, middle + span / 2);
      } else draw();
    }

    function scaled(by, around = (low + high) / 2) {
      look(around - (around - low) * by, around + (high - around) * by);
    }

    const actions = {
      previous: () => choose(here < 0 ? 0 : here - 1),
      next: () => choose(here + 1),
      closer: () => scaled(0.5),
      wider: () => scaled(2),
      whole: () => look(0, size),
    };
    for (const button of all(".tools button", part)) button.addEventListener("click", actions[button.dataset.do]);
    const keys = { ArrowLeft: "previous", ArrowRight: "next", "+": "closer", "=": "closer", "-": "wider", 0: "whole" };
    const steps = { PageUp: -10, PageDown: 10, ArrowUp: -1, ArrowDown: 1 };
    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in keys) actions[keys[event.key]]();
      else if (event.key in steps) choose(here + steps[event.key]);
      else if (event.key === "Home") choose(0);
      else if (event.key === "End") choose(regions.length - 1);
      else return;
      event.preventDefault();
    });

    // the pointer: drag to move, click to choose, wheel to look closer once the strip has the focus
    const byteAt = (event) => low + ((event.clientX - box.getBoundingClientRect().left) / box.clientWidth) * (high - low);
    let drag = null;
    box.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, low, moved: false }; });
    box.addEventListener("pointermove", (event) => {
      if (!drag || !(event.buttons & 1)) return;
      const by = ((event.clientX - drag.x) / box.clientWidth) * (high - low);
      if (Math.abs(event.clientX - drag.x) > 3 && !drag.moved) { drag.moved = true; box.setPointerCapture(event.pointerId); }
      if (drag.moved) look(drag.low - by, drag.low - by + (high - low));
    });
    box.addEventListener("pointerup", (event) => {
      const moved = drag && drag.moved;
      drag = null;
      if (!moved && "i" in event.target.dataset) choose(Number(event.target.dataset.i), false);
    });
    box.addEventListener("dblclick", () => choose(here));
    box.addEventListener("wheel", (event) => {
      if (document.activeElement !== box) return;
      event.preventDefault();
      scaled(event.deltaY < 0 ? 0.8 : 1.25, byteAt(event));
    }, { passive: false });

    part.querySelector("svg.map").addEventListener("click", (event) => {
      if ("i" in event.target.dataset) choose(Number(event.target.dataset.i));
    });
    for (const region of regions) region.row.addEventListener("click", () => { choose(region.place); go(box); });
    find.addEventListener("focus", () => { // a list of a thousand names costs nothing until it is wanted
      if (!list.children.length) list.append(...regions.slice(0, 3000).map((region) => new Option(region.label, region.label)));
    }, { once: true });
    find.addEventListener("change", () => {
      const wanted = find.value.trim().toLowerCase();
      if (!wanted) return;
      const byte = /^0x[0-9a-f]+$/.test(wanted) ? Number(wanted) : NaN;
      const place = byte <= size ? at(byte) : regions.findIndex((region) => region.label.toLowerCase().includes(wanted));
      find.setCustomValidity(place < 0 ? "there is no such region" : "");
      find.reportValidity();
      if (place >= 0) choose(place);
    });
    new ResizeObserver(() => draw()).observe(box);
    look(0, size);
    return (start, stop) => {
      choose(at(start), false);
      const span = Math.max((stop - start) / 0.4, 256);
      look((start + stop) / 2 - span / 2, (start + stop) / 2 + span / 2);
      go(box);
      box.focus({ preventScroll: true });
    };
  }

  // --- one file ---

  function file(root) {
    const findings = all(".finding", root).map((element) => {
      const button = element.querySelector("button[data-start]"), data = button ? button.dataset : { start: -1, stop: -1 };
      return { element, button, start: Number(data.start), stop: Math.max(Number(data.stop), Number(data.start) + 1),
        severity: element.classList[1], title: element.querySelector("h4 a").textContent };
    });
    const part = root.querySelector(".map-part");
    let show = null; // made when it is first seen: a page may hold many files
    const map = () => (show ||= magnifier(part, findings.filter((finding) => finding.start >= 0)));
    if (part && root.tagName !== "DETAILS") map();
    root.addEventListener("toggle", () => { if (part && root.open) map(); });
    for (const { button, start, stop } of findings) {
      if (button && part) button.addEventListener("click", () => map()(start, stop));
      else if (button) button.remove();
    }
    for (const box of all(".severities input", root)) {
      box.addEventListener("input", () => {
        for (const { element, severity } of findings) if (severity === box.dataset.do) element.hidden = !box.checked;
      });
    }
    const table = root.querySelector("table.tensors");
    if (!table) return;
    sortable(table);
    filters(root.querySelector(".filters"), table);
    const rows = new Map([...table.tBodies[0].rows].map((row) => [Number(row.cells[0].textContent), row]));
    for (const figure of all("figure", root)) {
      const order = figure.dataset.rows ? figure.dataset.rows.split(" ").map(Number) : null;
      figure.addEventListener("click", (event) => {
        const mark = event.target.closest("[data-i]");
        if (!mark) return;
        const row = rows.get(order ? order[mark.dataset.i] : Number(mark.dataset.i));
        row.hidden = false;
        row.querySelector("details").open = true;
        location.hash = row.id;
        go(row);
      });
    }
  }

  document.documentElement.classList.add("with-js");
  all(".file", document).forEach(file);
  const name = document.querySelector("section.file h2 code");
  if (name) document.title = name.textContent + " – i2s lint";
  addEventListener("hashchange", follow);
  follow();
})();
