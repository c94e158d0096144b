// A reader of I2_S, written from chapters 2, 5 and 6 alone: node reader.mjs model.gguf
// Prints the name, shape and scale of each I2_S tensor, how many of its trits are -1, 0 and +1, and the first eight.
import { readFileSync } from "node:fs";

class Cursor {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.little = true;
  }
  get left() { return this.bytes.length - this.at; }
  take(count) {                                   // R2.1-3: compare before use
    if (count > this.left) throw new Error(`${count} bytes are needed at ${this.at}, but ${this.left} are left`);
    this.at += count;
    return this.at - count;
  }
  u32() { return this.view.getUint32(this.take(4), this.little); }
  i32() { return this.view.getInt32(this.take(4), this.little); }
  u64() {
    const value = this.view.getBigUint64(this.take(8), this.little);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`${value} is more than any file holds`);
    return Number(value);
  }
  text() {                                        // 2.4
    const length = this.u64();
    const start = this.take(length);
    return new TextDecoder().decode(this.bytes.subarray(start, start + length));
  }
}

const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };   // 2.5
const SMALLEST = { ...SIZES, 8: 8, 9: 12 };

function skip(from, type, depth = 0) {
  if (type === 8) return void from.text();
  if (type === 9) {
    const [inner, count] = [from.u32(), from.u64()];
    if (!(inner in SMALLEST) || depth === 3 && inner === 9) throw new Error(`type ${inner} is invalid in an array`);
    if (count > Math.floor(from.left / SMALLEST[inner])) throw new Error(`${count} elements do not fit`);   // R2.5-2
    if (inner in SIZES) return void from.take(count * SIZES[inner]);
    for (let i = 0; i < count; i++) skip(from, inner, depth + 1);
    return;
  }
  if (!(type in SIZES)) throw new Error(`type ${type} is invalid`);                    // R2.5-1
  from.take(SIZES[type]);
}

export function tensors(bytes) {
  const from = new Cursor(bytes);
  if (new TextDecoder("latin1").decode(bytes.subarray(0, 4)) !== "GGUF") throw new Error("not a GGUF file");   // R2.2-1
  from.take(4);
  let version = from.u32();
  if (version !== 0 && (version & 0xffff) === 0) {                                       // R2.3-3
    [from.little, from.at] = [false, 4];
    version = from.u32();
  }
  if (version !== 2 && version !== 3) throw new Error(`version ${version} is unknown`);             // R2.3-1
  const [count, keys] = [from.u64(), from.u64()];
  if (keys > from.left / 13 || count > from.left / 24) throw new Error("the counts are more than the file can hold");   // R2.2-3

  let alignment = null;
  for (let i = 0; i < keys; i++) {
    const [key, type] = [from.text(), from.u32()];
    const start = from.at;
    skip(from, type);
    if (key === "general.alignment" && alignment === null) {                             // 2.7
      if (type !== 4) throw new Error("general.alignment is not a u32");
      alignment = from.view.getUint32(start, from.little);
      if (alignment === 0 || alignment & (alignment - 1)) throw new Error(`the alignment ${alignment} is invalid`);
    }
  }
  const infos = [];
  for (let i = 0; i < count; i++) {
    const [name, dimensions] = [from.text(), from.u32()];
    if (dimensions > 4) throw new Error(`a tensor has ${dimensions} dimensions`);
    const ne = Array.from({ length: dimensions }, () => from.u64());
    infos.push({ name, ne, type: from.i32(), offset: from.u64() });
  }
  const aligned = alignment ?? 32;
  const start = Math.ceil(from.at / aligned) * aligned;
  return infos.filter((info) => info.type === 36).map((info) => decode(bytes, from.little, start, info));
}

export function decode(bytes, little, start, { name, ne, offset }) {
  const n = ne.reduce((a, b) => a * b, 1);
  const [cols, rows] = [ne[0], n / ne[0]];
  if (cols % 128) throw new Error(`${name}: rows of ${cols} are not whole blocks`);       // R5.3-2
  const from = start + offset;
  if (from + n / 4 + 32 > bytes.length) throw new Error(`${name}: its tail is not in the file`);   // R6.1-1
  const trits = new Int8Array(n);
  for (let k = 0; k < n; k++) {                                                          // 5.3
    const byte = bytes[from + Math.floor(k / 128) * 32 + (k % 32)];
    const code = (byte >> (6 - 2 * Math.floor((k % 128) / 32))) & 3;
    if (code === 3) throw new Error(`${name}: element ${k} has code 3`);                 // R5.4-1
    trits[k] = code - 1;
  }
  const scale = new DataView(bytes.buffer, bytes.byteOffset).getFloat32(from + n / 4, little);   // 6.1
  return { name, rows, cols, scale, trits };
}

if (process.argv[1] === new URL(import.meta.url).pathname)
  for (const { name, rows, cols, scale, trits } of tensors(new Uint8Array(readFileSync(process.argv[2])))) {
    const counts = [-1, 0, 1].map((trit) => trits.reduce((sum, each) => sum + (each === trit ? 1 : 0), 0));
    console.log(name, `${rows}x${cols}`, scale, counts.join(" "), Array.from(trits.subarray(0, 8)).join(" "));
  }
