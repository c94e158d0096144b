// An adapter in JavaScript written from the specification, without any package: payloads of I2_S.
// i2s conform run -- node tests/peers/adapters/from_the_text.mjs
import { readFileSync } from "node:fs";
import { speak } from "./speak.mjs";

// Clause 5.5: the byte of element k, and the shift of its code there.
const layouts = {
  "x86-128": (k) => [Math.floor(k / 128) * 32 + (k % 32), 6 - Math.floor((k % 128) / 32) * 2],
  "arm-64": (k) => [Math.floor(k / 64) * 16 + (k % 16), 6 - Math.floor((k % 64) / 16) * 2],
  "rows-1x4": (k, cols) => {
    const row = Math.floor(k / cols);
    return [Math.floor(row / 4) * cols + (k % cols), 6 - (row % 4) * 2];
  },
  "sequential-msb": (k) => [k >> 2, 6 - (k % 4) * 2],
  "sequential-lsb": (k) => [k >> 2, (k % 4) * 2],
};
const codes = { "offset-1": [-1, 0, 1, null], "zero-first": [0, 1, -1, null], "twos-complement": [0, 1, null, -1], "offset-2": [null, -1, 0, 1] };

const reject = (phase, text) => { throw Object.assign(new Error(text), { phase }); };

function decode(op, path, args) {
  const data = readFileSync(path);
  const [cols, rows] = args.shape;
  const count = cols * rows;
  const size = Math.floor(count / 4);
  if (data.length !== size + 32) reject("extent", `${data.length} bytes; expected ${size + 32}`);
  const trits = new Int8Array(count);
  for (let k = 0; k < count; k++) {
    const [byte, shift] = layouts[args.layout](k, cols);
    if (byte >= size) continue; // elements outside of whole blocks are 0
    const trit = codes[args.codes ?? "offset-1"][(data[byte] >> shift) & 3];
    if (trit === null) reject("payload", `element ${k} has an undefined code`);
    trits[k] = trit;
  }
  if (op === "decode") return new Uint8Array(trits.buffer);
  const scale = new DataView(data.buffer, data.byteOffset).getFloat32(size, args.byte_order !== "big");
  return new Uint8Array(Float32Array.from(trits, (trit) => trit * scale).buffer);
}

const features = ["type.i2_s", "subnormals", "big-endian", "tail.replicated-8", "strict.codes", "strict.extent"];
for (const name of Object.keys(layouts)) features.push(`layout.${name}`);
for (const name of Object.keys(codes)) features.push(`codes.${name}`);
await speak({ name: "JavaScript, from the text", version: "1", language: "javascript" }, ["decode", "dequant"], features, decode);
