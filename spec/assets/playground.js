// The interactive page: bytes on one side, elements on the other, and how every dialect decodes the same bytes.
// The index arithmetic is in layouts.js, which is generated from the schema; no position of a code is computed here.
"use strict";

(() => {
  const home = document.getElementById("playground");
  if (!home) return;

  const EXAMPLE = { rows: 4, cols: 128 };
  const MOST = 4096; // elements drawn at most
  const SHIFTS = [6, 4, 2, 0];
  const SHOWN = { "-1": "\u2212", 0: "0", 1: "+", null: "\u00b7" };
  const WORDS = { "-1": "\u22121", 0: "0", 1: "+1", null: "undefined" };

  const state = { layout: I2S.layouts[0], map: I2S.codeMaps[0], rows: EXAMPLE.rows, cols: EXAMPLE.cols, bytes: [] };

  // ---- index arithmetic ------------------------------------------------------------------------------------------

  /** Whether a matrix consists of whole blocks and whole groups of rows of a layout. */
  const fits = (layout, rows, cols) => (rows * cols) % layout.block === 0 && rows % layout.rowBlock === 0;

  /** Byte, shift, code and trit of element k. */
  function place(k, layout, map) {
    const byte = layout.byteOf(k, state.rows, state.cols);
    const shift = layout.shiftOf(k, state.rows, state.cols);
    const code = (state.bytes[byte] >> shift) & 3;
    return { k, byte, shift, code, trit: map.trits[code] };
  }

  const elements = () => state.rows * state.cols;
  const payloadBytes = () => elements() / I2S.codesPerByte;

  /** The bytes of the example of chapter 5: element k is (k*k + 3*k + floor(k/5)) % 3 - 1, in the canonical dialect. */
  function example() {
    const { rows, cols } = EXAMPLE;
    const [layout, map] = [I2S.layouts[0], I2S.codeMaps[0]];
    const bytes = new Array((rows * cols) / I2S.codesPerByte + I2S.tailBytes).fill(0);
    for (let k = 0; k < rows * cols; k++) {
      const trit = ((k * k + 3 * k + Math.floor(k / 5)) % 3) - 1;
      bytes[layout.byteOf(k, rows, cols)] |= map.trits.indexOf(trit) << layout.shiftOf(k, rows, cols);
    }
    bytes.splice((rows * cols) / I2S.codesPerByte, 4, 0x00, 0x00, 0x40, 0x3f);
    return bytes;
  }

  const hex = (byte) => byte.toString(16).padStart(2, "0");
  const lines = (bytes) =>
    bytes.map((byte, i) => hex(byte) + (i % 16 === 15 ? "\n" : " ")).join("").trimEnd();

  /** Bytes of a hex text: pairs of digits. Addresses and characters of a hex dump, and punctuation of listings, are skipped. */
  function bytesOf(text) {
    const bytes = [];
    for (const line of text.split("\n")) {
      const xxd = line.match(/^\s*[0-9a-f]{4,}: (.*?)(  |$)/i);
      const bare = xxd ? xxd[1] : line.replace(/^\s*[0-9a-f]{4,}\s\s/i, "").replace(/\|.*$/, "");
      const plain = bare.replace(/\bb(?=["'])|0x|\\x|[,;:"'()[\]{}]/gi, " ");
      for (const word of plain.trim().split(/\s+/)) {
        if (word === "") continue;
        if (!/^([0-9a-f]{2})+$/i.test(word)) throw new Error(`\u201c${word.slice(0, 20)}\u201d does not consist of pairs of hex digits`);
        for (let i = 0; i < word.length; i += 2) bytes.push(parseInt(word.slice(i, i + 2), 16));
      }
    }
    return bytes;
  }

  // ---- elements of the page ---------------------------------------------------------------------------------------

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  function choice(id, label, entries, chosen) {
    const select = make("select", { id });
    for (const entry of entries) select.append(make("option", { value: entry.name }, entry.name));
    select.addEventListener("change", () => chosen(entries.find((entry) => entry.name === select.value)));
    return make("label", { for: id }, label, select);
  }

  function number(id, label, key) {
    const input = make("input", { id, type: "number", min: 1, max: MOST, value: state[key] });
    input.addEventListener("input", () => {
      state[key] = Math.max(0, Math.floor(Number(input.value)) || 0);
      draw();
    });
    return make("label", { for: id }, label, input);
  }

  const box = make("textarea", { id: "pg-hex", rows: 6, spellcheck: "false", autocomplete: "off" });
  const known = make("p", { class: "pg-known" });
  const fault = make("p", { class: "pg-fault", role: "alert" });
  const said = make("p", { class: "pg-said", "aria-live": "polite" });
  const bytePane = make("div", { class: "pg-bytes", role: "group", "aria-label": "Bytes of the payload" });
  const elementPane = make("div", { class: "pg-elements", role: "group", "aria-label": "Elements of the tensor" });
  const table = make("div", { class: "pg-dialects" });
  const picker = make("input", { id: "pg-file", type: "file", accept: ".gguf" });
  const drop = make("label", { for: "pg-file", class: "pg-drop" },
    "Drop a GGUF file here, or choose one, to see its header, tensors, scales, shares of codes and first findings. The file is read in this page and never uploaded.", picker);
  const filePane = make("div", { class: "pg-file", "aria-live": "polite" });
  const reset = make("button", { type: "button", class: "md-button" }, "Example of chapter 5");
  reset.addEventListener("click", () => {
    Object.assign(state, EXAMPLE);
    home.querySelector("#pg-rows").value = state.rows;
    home.querySelector("#pg-cols").value = state.cols;
    box.value = lines(example());
    draw();
  });

  home.replaceChildren(
    make("div", { class: "pg-controls" },
      choice("pg-layout", "Layout", I2S.layouts, (layout) => { state.layout = layout; draw(); }),
      choice("pg-map", "Code map", I2S.codeMaps, (map) => { state.map = map; draw(); }),
      number("pg-rows", "Rows", "rows"),
      number("pg-cols", "Columns (ne0)", "cols"),
      reset),
    drop,
    filePane,
    known,
    fault,
    said,
    make("div", { class: "pg-panes" },
      make("section", {}, make("h2", {}, "Elements, 32 in a line"), elementPane),
      make("section", {}, make("h2", {}, "Bytes, each with its bits, highest first"), bytePane)),
    make("label", { for: "pg-hex", class: "pg-hex" }, "Bytes of a tensor in hex: the payload, optionally followed by the tail", box),
    make("h2", {}, "The same bytes in every dialect"),
    table);
  box.addEventListener("input", () => draw());

  // ---- a dropped file -----------------------------------------------------------------------------------

  for (const kind of ["dragenter", "dragover"])
    drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("pg-over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("pg-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("pg-over");
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  picker.addEventListener("change", () => { if (picker.files.length) open(picker.files[0]); });

  async function open(file) {
    filePane.replaceChildren(make("p", {}, `Reading ${file.name} \u2026`));
    try {
      show(file, await I2S_FILE.read(file));
    } catch (error) {
      filePane.replaceChildren(make("p", { class: "pg-fault" }, `${file.name} cannot be read: ${error.message}`));
    }
  }

  const count = (number) => number.toLocaleString("en");

  /** Show the content of a file. Text from the file is inserted as plain text, never as markup. */
  function show(file, found) {
    const facts = found.version === undefined ? [] : [
      `GGUF version ${found.version}, ${found.little ? "little" : "big"}-endian`, `${count(found.keyCount)} keys`,
      `${count(found.count)} tensors`, `alignment ${count(found.alignment)}`];
    filePane.replaceChildren(
      make("h2", {}, file.name),
      make("p", {}, [`${count(found.size)} bytes`, ...facts].join(" \u00b7 ")),
      ...(found.fault ? [make("p", { class: "pg-fault" }, `The header cannot be read to its end: ${found.fault}.`)] : []),
      findingsOf(found), keysOf(found), tensorsOf(file, found));
  }

  function folded(title, rows, heads) {
    if (!rows.length) return "";
    const body = make("tbody", {}, ...rows);
    const head = make("thead", {}, make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each))));
    return make("details", {}, make("summary", {}, title), make("div", { class: "pg-dialects" }, make("table", {}, head, body)));
  }

  const row = (...cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));

  /** A long name that may be broken after a dot or an underscore. */
  const breakable = (name) => name.split(/(?<=[._])(?=[a-z0-9])/).flatMap((part, i) => (i ? [make("wbr", {}), part] : [part]));

  function findingsOf({ findings, fault }) {
    if (!findings.length)
      return make("p", {}, fault ? "No rule was checked." : `None of the ${Object.keys(I2S.rules).length} rules that this page checks reports anything; i2s lint checks all rules.`);
    const groups = new Map();
    for (const finding of findings) groups.set(finding.code, [...(groups.get(finding.code) ?? []), finding]);
    const items = [...groups].map(([code, all]) => {
      const [slug, severity, title] = I2S.rules[code];
      const times = all.length > 1 ? ` (${count(all.length)} times)` : "";
      const first = `${all[0].tensor ? `${all[0].tensor}: ` : ""}${all[0].words}`;
      return make("li", {}, make("a", { href: `rules/${code}.html` }, `${code} ${slug}`), ` ${severity}: ${title}${times} ${first}.`);
    });
    return make("div", {}, make("p", {}, "Possible errors, each with the closest rule; i2s lint names the cause:"), make("ul", {}, ...items));
  }

  function keysOf({ keys }) {
    const rows = keys.map(({ key, type, value }) => row(make("span", {}, ...breakable(key)), type, value));
    return folded(`${count(keys.length)} keys`, rows, ["key", "type", "value"]);
  }

  function tensorsOf(file, { tensors }) {
    const rows = tensors.map((tensor) => {
      const { name, ne, typeName, scale, counts } = tensor;
      const shape = [...ne].reverse().map(count).join(" \u00d7 ");
      const shown = breakable(name);
      if (!counts) return row(make("span", {}, ...shown), typeName ?? "", shape, "", "");
      const button = make("button", { type: "button", title: "Show its first rows below" }, ...shown);
      button.addEventListener("click", () => take(file, tensor));
      return row(button, typeName, shape, I2S_FILE.shortest(scale), strip(counts));
    });
    const part = folded(`${count(tensors.length)} tensors`, rows, ["tensor", "type", "rows \u00d7 columns", "scale", "codes \u22121, 0, +1"]);
    if (part) part.open = true;
    return part;
  }

  /** Shares of the codes as a bar, with the numbers beside it. */
  function strip(counts) {
    const whole = counts.reduce((a, b) => a + b, 0);
    const parts = counts.map((each, code) => {
      const part = make("i", { class: `pg-share pg-code${code}` });
      part.style.flexGrow = String(each / whole);
      return part;
    });
    const words = counts.slice(0, 3).map((each) => `${Math.round((100 * each) / whole)} %`).join(", ");
    return make("span", { class: "pg-shares" }, make("span", { class: "pg-strip" }, ...parts), words);
  }

  /** Put as many first rows of a tensor into the panes as can be drawn. */
  async function take(file, tensor) {
    const part = await I2S_FILE.rowsOf(file, tensor, MOST);
    if (!part) return void (fault.textContent = `A row of ${tensor.name} has more elements than this page draws (${MOST}).`);
    Object.assign(state, { rows: part.rows, cols: part.cols });
    home.querySelector("#pg-rows").value = state.rows;
    home.querySelector("#pg-cols").value = state.cols;
    box.value = lines(part.bytes);
    draw();
    home.querySelector(".pg-panes").scrollIntoView({ block: "nearest" });
  }

  // ---- highlighting -------------------------------------------------------------------------------------------------

  let lit = [];

  /** Scroll a pane until a cell is visible, without scrolling the page. */
  function intoSight(pane, cell) {
    if (!cell) return;
    const [outer, inner] = [pane.getBoundingClientRect(), cell.getBoundingClientRect()];
    if (inner.top < outer.top) pane.scrollTop -= outer.top - inner.top + 8;
    else if (inner.bottom > outer.bottom) pane.scrollTop += inner.bottom - outer.bottom + 8;
  }

  /** Highlight some elements in one pane and their bits in the other, and describe them in words. */
  function light(ks) {
    for (const element of lit) element.classList.remove("pg-lit", "pg-near");
    lit = [];
    const mark = (element, kind) => { if (element) { element.classList.add(kind); lit.push(element); } };
    const places = ks.map((k) => place(k, state.layout, state.map));
    for (const { k, byte, shift } of places) {
      mark(elementPane.querySelector(`[data-k="${k}"]`), "pg-lit");
      mark(bytePane.querySelector(`[data-byte="${byte}"][data-shift="${shift}"]`), "pg-lit");
      mark(bytePane.querySelector(`[data-whole="${byte}"]`), "pg-near");
    }
    if (places.length) {
      intoSight(elementPane, elementPane.querySelector(".pg-lit"));
      intoSight(bytePane, bytePane.querySelector(".pg-near"));
    }
    said.replaceChildren(...(places.length ? words(places) : ["Point at an element or at bits, or move with the arrow keys."]));
  }

  function words(places) {
    const { byte } = places[0];
    const head = places.length > 1 ? `byte ${byte} is ${hex(state.bytes[byte])}: ` : "";
    return [head + places.map(({ k, byte: at, shift, code, trit }) => {
      const where = `element ${k} (row ${Math.floor(k / state.cols)}, column ${k % state.cols})`;
      const bits = `bits ${shift + 1}:${shift}${places.length > 1 ? "" : ` of byte ${at}, which is ${hex(state.bytes[at])}`}`;
      return `${where} has ${bits}: code ${code}, ${WORDS[trit]}`;
    }).join("; ") + "."];
  }

  /** The elements that a part of the page shows. */
  function meant(target) {
    const cell = target.closest?.("[data-k], [data-byte], [data-whole]");
    if (!cell) return null;
    if (cell.dataset.k !== undefined) return [Number(cell.dataset.k)];
    const byte = Number(cell.dataset.byte ?? cell.dataset.whole);
    return owners.get(byte).filter((_, i) => cell.dataset.shift === undefined || SHIFTS[i] === Number(cell.dataset.shift));
  }

  const owners = new Map(); // byte -> its elements, bits 7:6 first

  for (const pane of [bytePane, elementPane]) {
    pane.addEventListener("pointerover", (event) => { const ks = meant(event.target); if (ks) light(ks); });
    pane.addEventListener("focusin", (event) => { const ks = meant(event.target); if (ks) light(ks); });
    pane.addEventListener("keydown", (event) => {
      const cells = [...pane.querySelectorAll("[data-k], [data-shift]")];
      const at = cells.indexOf(event.target);
      const columns = getComputedStyle(pane).gridTemplateColumns.split(" ").length;
      const across = pane === elementPane ? columns : columns * SHIFTS.length;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
      const next = { Home: cells[0], End: cells[cells.length - 1] }[event.key] ?? cells[at + step];
      if (at < 0 || !next) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  function wrong() {
    const n = elements();
    if (n === 0) return "A tensor has at least one row and one column.";
    if (n > MOST) return `${n} elements are too many: this page draws ${MOST} at most.`;
    if (n % I2S.codesPerByte) return `${n} elements do not fill whole bytes.`;
    if (state.bytes.length < payloadBytes())
      return `${state.rows} \u00d7 ${state.cols} elements take ${payloadBytes()} bytes, but the text has ${state.bytes.length}.`;
    return null;
  }

  function unfit(layout) {
    return layout.rowBlock > 1
      ? `${layout.name} packs rows in groups of ${layout.rowBlock}; ${state.rows} is not a multiple of ${layout.rowBlock}.`
      : `${layout.name} packs blocks of ${layout.block} elements; ${elements()} is not a multiple of ${layout.block}.`;
  }

  function draw() {
    known.replaceChildren(make("b", {}, state.layout.name), ` \u2013 ${state.layout.knownAs}. `,
      make("b", {}, state.map.name), ` \u2013 ${state.map.knownAs}.`);
    let problem = null;
    try {
      state.bytes = bytesOf(box.value);
      problem = wrong();
    } catch (error) {
      problem = error.message;
    }
    const drawable = problem === null;
    if (drawable && !fits(state.layout, state.rows, state.cols)) problem = unfit(state.layout);
    fault.textContent = problem ?? "";
    bytePane.replaceChildren();
    elementPane.replaceChildren();
    table.replaceChildren();
    owners.clear();
    if (problem === null) panes();
    if (drawable) dialects();
    light([]);
  }

  function panes() {
    const places = Array.from({ length: elements() }, (_, k) => place(k, state.layout, state.map));
    for (let byte = 0; byte < payloadBytes(); byte++) owners.set(byte, []);
    for (const { k, byte, shift } of places) owners.get(byte)[SHIFTS.indexOf(shift)] = k;

    for (let byte = 0; byte < payloadBytes(); byte++) {
      const bits = SHIFTS.map((shift) => {
        const code = (state.bytes[byte] >> shift) & 3;
        return make("span", { class: `pg-bit pg-code${code}`, "data-byte": byte, "data-shift": shift, tabindex: -1, role: "img",
          "aria-label": `byte ${byte}, bits ${shift + 1}:${shift}` }, code.toString(2).padStart(2, "0"));
      });
      bytePane.append(make("span", { class: "pg-byte", "data-whole": byte }, make("span", { class: "pg-value" }, hex(state.bytes[byte])), ...bits));
    }
    for (const { k, trit } of places)
      elementPane.append(make("span", { class: `pg-trit pg-t${trit}${k % state.cols === 0 ? " pg-row" : ""}`, "data-k": k, tabindex: -1,
        role: "img", "aria-label": `element ${k}` }, SHOWN[trit]));
    for (const pane of [bytePane, elementPane]) pane.querySelector("[tabindex]").tabIndex = 0;
  }

  function dialects() {
    const body = make("tbody");
    for (const layout of I2S.layouts) {
      if (!fits(layout, state.rows, state.cols)) {
        body.append(make("tr", {}, make("th", { scope: "row" }, layout.name), make("td", { colspan: 5 }, unfit(layout))));
        continue;
      }
      for (const map of I2S.codeMaps) {
        const counts = { "-1": 0, 0: 0, 1: 0, null: 0 };
        let first = "";
        for (let k = 0; k < elements(); k++) {
          const { trit } = place(k, layout, map);
          counts[trit]++;
          if (k < 32) first += SHOWN[trit];
        }
        const chosen = layout === state.layout && map === state.map;
        body.append(make("tr", chosen ? { class: "pg-chosen", "aria-current": "true" } : {},
          make("th", { scope: "row" }, map === I2S.codeMaps[0] ? layout.name : `${layout.name}/${map.name}`),
          make("td", { class: "pg-first" }, first),
          ...[counts["-1"], counts[0], counts[1], counts.null].map((count) => make("td", { class: "pg-count" }, String(count)))));
      }
    }
    const heads = ["dialect", "elements 0 to 31", "\u22121", "0", "+1", "undefined"];
    table.append(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), body));
    const rest = state.bytes.slice(payloadBytes());
    if (rest.length >= 4) {
      const scale = new DataView(Uint8Array.from(rest.slice(0, 4)).buffer).getFloat32(0, true);
      table.append(make("p", { class: "pg-scale" }, `The bytes after the payload, ${rest.slice(0, 4).map(hex).join(" ")}, are a scale of ${scale} in little-endian order.`));
    }
  }

  reset.click();
  globalThis.I2S_PLAYGROUND = { state, place, fits, bytesOf, elements }; // for tests, and for the console
})();
