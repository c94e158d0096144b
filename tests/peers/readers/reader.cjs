// Prints what the parser in JavaScript finds in files: PARSER=GgufI2s.js NODE_PATH=FOLDER/node_modules node reader.cjs FILE...
const fs = require("fs");
const { KaitaiStream } = require("kaitai-struct");
const { GgufI2s } = require(process.env.PARSER);

const layouts = ["interleave128", "interleave64", "rows1x4", "sequentialMsb", "sequentialLsb", "rowBlocks4"];
const codeMaps = ["offset1", "zeroFirst", "twosComplement", "offset2"];
const blockTypes = ["q20", "q20G128", "pq20", "ptq10", "tq10", "tq20", "iq1Bn", "iq2Bn", "i2Sr"];
const plain = { 0: "asU8", 1: "asI8", 2: "asU16", 3: "asI16", 4: "asU32", 5: "asI32", 7: "asBool" };

const hex = (bytes) => Buffer.from(bytes).toString("hex");

function bits(number) {
  const held = Buffer.alloc(8);
  held.writeDoubleBE(number);
  return Number.isNaN(number) ? "nan" : held.toString("hex");
}

function mixed(numbers) {
  let mix = 0;
  for (const number of numbers) mix = (mix * 31 + number + 1) % 1000003;
  return mix;
}

function text(value, root) {
  const wide = (held) => held.halves.map(BigInt)[root.orderMark === 0 ? "reduce" : "reduceRight"]((all, half) => (all << 32n) | half);
  switch (value.kind) {
    case 6: return bits(value.asF32.value);
    case 8: return "'" + hex(value.asStr.text);
    case 9: return `[${value.asArr.kind}${value.asArr.items.map((each) => " " + text(each, root)).join("")}]`;
    case 10: return String(wide(value.asU64)); // a Number does not hold 64 bits
    case 11: return String(BigInt.asIntN(64, wide(value.asI64)));
    case 12: return bits(value.asF64.asF64);
    default: return String(value[plain[value.kind]]);
  }
}

function lines(root) {
  const { file } = root;
  const out = [`file ${file.header.version} ${file.alignment} ${file.dataStart}`];
  for (const pair of file.keyValues) out.push(`key ${hex(pair.key.text)} ${pair.kind} ${text(pair.value, root)}`);
  for (const info of file.tensorInfos) {
    out.push(`tensor ${hex(info.name.text)} ${info.kind} ${info.offset} ${info.ne.join(",")}`);
    if (info.i2s) {
      out.push(`i2s ${hex(info.i2s.payload)} ${bits(info.i2s.scale.value)} ${hex(info.i2s.unused)}`);
      for (const layout of layouts) {
        const elements = info.i2s[layout];
        const parts = elements?.flatMap((each) => ["code", ...codeMaps].map((part) => each[part]));
        if (parts) out.push(`${layout.toLowerCase()} ${mixed(parts)}`);
      }
    }
    for (const name of blockTypes) {
      const tensor = info[name];
      if (!tensor) continue;
      const blocks = tensor.eachRow.flatMap((row) => row.blocks);
      const held = blocks.flatMap((block) => block.weights.flatMap((each) => [each.code, each.weight]));
      const scales = tensor.scales ?? (name.startsWith("iq") ? tensor.eachRow : blocks).map((each) => each.scale);
      out.push(`${name.toLowerCase()} ${mixed(held)} ${scales.map((each) => bits(each.value)).join(",")}`);
    }
  }
  return [...out, "end"].join("\n");
}

for (const path of process.argv.slice(2)) {
  const bytes = fs.readFileSync(path);
  try {
    console.log(lines(new GgufI2s(new KaitaiStream(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)))));
  } catch (error) {
    console.log("error", error.name);
  }
}
