// Written by i2s_spec.exports.javascript from the schema: edit that.
"use strict";
globalThis.I2S = {
  codesPerByte: 4,
  tailBytes: 32,
  layouts: [
    {name: "interleave-128", block: 128, rowBlock: 1, knownAs: "the file format; x86 kernels, both Python converters, every release before November 2025",
      byteOf: (k, rows, cols) => Math.floor(k / 128) * 32 + k % 32,
      shiftOf: (k, rows, cols) => 6 - Math.floor(k % 128 / 32) * 2},
    {name: "interleave-64", block: 64, rowBlock: 1, knownAs: "files quantized by an ARM build since November 2025",
      byteOf: (k, rows, cols) => Math.floor(k / 64) * 16 + k % 16,
      shiftOf: (k, rows, cols) => 6 - Math.floor(k % 64 / 16) * 2},
    {name: "rows-1x4", block: 4, rowBlock: 4, knownAs: "files quantized by an x86 build without ACT_PARALLEL, which reads them wrong itself",
      byteOf: (k, rows, cols) => Math.floor(Math.floor(k / cols) / 4) * cols + k % cols,
      shiftOf: (k, rows, cols) => 6 - Math.floor(k / cols) % 4 * 2},
    {name: "sequential-msb", block: 4, rowBlock: 1, knownAs: "two development forks",
      byteOf: (k, rows, cols) => Math.floor(k / 4),
      shiftOf: (k, rows, cols) => 6 - k % 4 * 2},
    {name: "sequential-lsb", block: 4, rowBlock: 1, knownAs: "private converters",
      byteOf: (k, rows, cols) => Math.floor(k / 4),
      shiftOf: (k, rows, cols) => k % 4 * 2},
    {name: "row-blocks-4", block: 4, rowBlock: 4, knownAs: "Hugging Face's packed uint8 checkpoints",
      byteOf: (k, rows, cols) => Math.floor(k / cols) % Math.floor(rows / 4) * cols + k % cols,
      shiftOf: (k, rows, cols) => Math.floor(Math.floor(k / cols) / Math.floor(rows / 4)) * 2},
  ],
  codeMaps: [
    {name: "offset-1", trits: [-1, 0, 1, null], knownAs: "every released quantizer and converter"},
    {name: "zero-first", trits: [0, 1, -1, null], knownAs: "an error in documentation that readers implement"},
    {name: "twos-complement", trits: [0, 1, null, -1], knownAs: "pre-release files of June to August 2024"},
    {name: "offset-2", trits: [null, -1, 0, 1], knownAs: "T-MAC tensors"},
  ],
};
