// Reads a GGUF file that was dropped on the page: header, tensors, scales, shares of codes, first findings. It reads ranges
// of bytes from the file itself, and sends nothing anywhere. Type numbers and texts of rules are in layouts.js.
"use strict";

(() => {
  const HEADER = 1 << 20; // bytes read first; doubled until they contain the whole header
  const MOST_HEADER = 1 << 27;
  const SAMPLE = 1 << 16; // bytes of each payload in which codes are counted
  const MOST_KEYS = 4096;
  const MOST_TENSORS = 4096;
  const I2_S = 36;
  const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
  const SMALLEST = { ...SIZES, 8: 8, 9: 12 };

  /** The bytes read so far end before the header does. */
  class Short extends Error {}

  class Cursor {
    constructor(bytes, size) {
      this.bytes = bytes;
      this.size = size; // of the whole file; counts are compared with it
      this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.at = 0;
      this.little = true;
    }
    take(count) {
      if (count > this.size - this.at) throw new Error(`${count} bytes are needed at byte ${this.at}, but only ${this.size - this.at} are left`);
      if (count > this.bytes.length - this.at) throw new Short();
      this.at += count;
      return this.at - count;
    }
    u32() { return this.view.getUint32(this.take(4), this.little); }
    u64() {
      const value = this.view.getBigUint64(this.take(8), this.little);
      if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`${value} is more than any file holds`);
      return Number(value);
    }
    text(most = 65535) {
      const length = this.u64();
      const start = this.take(length);
      return new TextDecoder().decode(this.bytes.subarray(start, start + Math.min(length, most)));
    }
  }

  /** A float32 with the fewest digits that give the same value when read back. */
  function shortest(found) {
    for (let digits = 1; digits < 9; digits++) {
      const near = Number(found.toPrecision(digits));
      if (Math.fround(near) === found) return String(near);
    }
    return String(Number(found.toPrecision(9)));
  }

  /** A value as text: a number, the beginning of a string, or the size of an array. */
  function value(from, type, depth = 0) {
    const { view, little } = from;
    if (type === 8) return from.text(200);
    if (type === 9) {
      const [inner, count] = [from.u32(), from.u64()];
      if (!(inner in SMALLEST) || depth > 3) throw new Error(`type ${inner} is invalid for elements of an array`);
      if (count > Math.floor((from.size - from.at) / SMALLEST[inner])) throw new Error(`an array of ${count} elements does not fit into the file`);
      if (inner in SIZES) from.take(count * SIZES[inner]);
      else if (inner === 8) for (let i = 0; i < count; i++) from.take(from.u64());
      else for (let i = 0; i < count; i++) value(from, inner, depth + 1);
      return `${count.toLocaleString("en")} × ${I2S.values[inner]}`;
    }
    if (!(type in SIZES)) throw new Error(`type ${type} is invalid for a value`);
    const at = from.take(SIZES[type]);
    const get = { 0: "Uint8", 1: "Int8", 2: "Uint16", 3: "Int16", 4: "Uint32", 5: "Int32", 6: "Float32", 7: "Uint8",
      10: "BigUint64", 11: "BigInt64", 12: "Float64" }[type];
    const found = view[`get${get}`](at, little);
    if (type === 6) return shortest(found);
    return type === 7 ? String(found !== 0) : String(found);
  }

  function header(bytes, size) {
    const from = new Cursor(bytes, size);
    from.take(4);
    let version = from.u32();
    if (version !== 0 && (version & 0xffff) === 0) {
      [from.little, from.at] = [false, 4];
      version = from.u32();
    }
    if (version !== 2 && version !== 3) throw Object.assign(new Error(`its version is ${version}`), { code: "G104" });
    const [count, keyCount] = [from.u64(), from.u64()];
    if (keyCount > size / 13 || count > size / 24) throw new Error("its counts are more than the file can hold");
    const keys = [];
    let alignment = 32;
    for (let i = 0; i < keyCount; i++) {
      const [key, type] = [from.text(), from.u32()];
      const shown = value(from, type);
      if (key === "general.alignment" && Number(shown) > 0) alignment = Number(shown);
      if (keys.length < MOST_KEYS) keys.push({ key, type: I2S.values[type] ?? String(type), value: shown });
    }
    const tensors = [];
    for (let i = 0; i < count; i++) {
      const [name, dimensions] = [from.text(), from.u32()];
      if (dimensions > 4) throw new Error(`a tensor has ${dimensions} dimensions`);
      const ne = Array.from({ length: dimensions }, () => from.u64());
      const info = { name, ne, type: from.u32(), offset: from.u64() };
      if (tensors.length < MOST_TENSORS) tensors.push(info);
    }
    const start = Math.ceil(from.at / alignment) * alignment;
    return { version, little: from.little, keyCount, count, keys, alignment, tensors, headerBytes: from.at, start };
  }

  /** Size of a tensor in bytes; null if its type has no fixed block size. */
  function bytesOf({ ne, type }) {
    const n = ne.reduce((a, b) => a * b, 1);
    if (type === I2_S) return Math.floor(n / 4) + I2S.tailBytes;
    const [, block, size] = I2S.types[type] ?? ["", 0, 0];
    return block ? (n / block) * size : null;
  }

  const slice = async (file, start, stop) => new Uint8Array(await file.slice(start, stop).arrayBuffer());

  /** The finding for a file that does not begin like GGUF; null for one that does. */
  function other(first, size) {
    const words = new TextDecoder("latin1").decode(first.subarray(0, 40));
    if (size === 0) return { code: "G001", words: "the file is empty" };
    if (words.startsWith("version https://git-lfs")) return { code: "G003", words: "the file is a Git LFS pointer, not the model" };
    if (!words.startsWith("GGUF")) return { code: "G002", words: "the first four bytes are not 'GGUF'" };
    return null;
  }

  /**
   * The content of a file: `{ size, fault, version, keys, tensors, findings }`; each I2_S tensor has its scale, its counts
   * of codes, and the number of bytes in which they were counted.
   */
  async function read(file, progress = () => {}) {
    const result = { size: file.size, fault: null, keys: [], tensors: [], findings: [] };
    const find = (code, words, tensor = "") => result.findings.push({ code, words, tensor });
    const foreign = other(await slice(file, 0, 64), file.size);
    if (foreign) return find(foreign.code, foreign.words), result;
    for (let most = HEADER; ; most *= 2) {
      try {
        Object.assign(result, header(await slice(file, 0, Math.min(most, file.size)), file.size));
        break;
      } catch (error) {
        if (error instanceof Short && most < MOST_HEADER) continue;
        result.fault = error instanceof Short ? "its header is longer than this page reads" : error.message;
        if (error.code) find(error.code, error.message);
        return result;
      }
    }
    for (const [i, tensor] of result.tensors.entries()) {
      progress(i / result.tensors.length);
      await look(file, result, tensor, find);
    }
    return result;
  }

  async function look(file, { start, little, alignment }, tensor, find) {
    const { name, ne, type, offset } = tensor;
    tensor.bytes = bytesOf(tensor);
    tensor.typeName = I2S.types[type]?.[0] ?? `type ${type}`;
    if (offset % alignment) find("G403", `offset ${offset} is not a multiple of ${alignment}`, name);
    const begin = start + offset;
    if (tensor.bytes !== null && begin + tensor.bytes > file.size) {
      find("G401", `it ends at byte ${begin + tensor.bytes}, but the file ends at byte ${file.size}`, name);
      return;
    }
    if (type !== I2_S) return;
    const payload = tensor.bytes - I2S.tailBytes;
    tensor.begin = begin;
    if (ne[0] % 128) find("I103", `its rows have ${ne[0]} elements, which is not a multiple of 128`, name);
    const tail = await slice(file, begin + payload, begin + payload + 4);
    tensor.scale = new DataView(tail.buffer).getFloat32(0, little);
    const sample = await slice(file, begin, begin + Math.min(payload, SAMPLE));
    tensor.counts = [0, 0, 0, 0];
    tensor.counted = sample.length;
    for (const byte of sample) for (const shift of [6, 4, 2, 0]) tensor.counts[(byte >> shift) & 3]++;
    if (Number.isNaN(tensor.scale)) find("I302", "its scale is NaN", name);
    else if (!Number.isFinite(tensor.scale)) find("I303", "its scale is infinite", name);
    else if (tensor.scale === 0 && tensor.counts[0] + tensor.counts[2]) find("I304", "its scale is 0", name);
    else if (tensor.scale < 0) find("I305", `its scale is ${tensor.scale}`, name);
    if (tensor.counts[3]) find("I201", `code 3 occurs in its first ${sample.length} bytes, ${tensor.counts[3]} times`, name);
  }

  /** As many first rows of a tensor as the page can draw, with its tail. */
  async function rowsOf(file, { ne, begin, bytes }, most) {
    const cols = ne[0], all = ne.slice(1).reduce((a, b) => a * b, 1);
    const rows = Math.min(all, Math.floor(most / cols));
    if (!rows) return null;
    const payload = await slice(file, begin, begin + (rows * cols) / 4);
    const tail = await slice(file, begin + bytes - I2S.tailBytes, begin + bytes);
    return { rows, cols, bytes: [...payload, ...tail] };
  }

  globalThis.I2S_FILE = { read, rowsOf, shortest };
})();
