// Compiles a Kaitai definition (as JSON), once in a folder, and reads files by it: node kaitai.mjs definition.json folder file...
// Prints one line of JSON for each file. The packages are looked for where NODE_PATH says.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const require = createRequire(process.env.KAITAI_HOME + "/");
const compiler = require("kaitai-struct-compiler");
const { KaitaiStream } = require("kaitai-struct");

const [definition, folder, ...files] = process.argv.slice(2);
const target = path.join(folder, "GgufI2s.js");
if (!fs.existsSync(target)) {
  const made = await compiler.compile("javascript", JSON.parse(fs.readFileSync(definition)), null, false);
  fs.writeFileSync(target, made["GgufI2s.js"].replaceAll("kaitai-struct/KaitaiStream", require.resolve("kaitai-struct/KaitaiStream")));
}
const module = createRequire(folder + "/")(target);
const Gguf = module.GgufI2s ?? module;

// Of a tensor of a type with a scale for each group: codes, weights, and every scale; a scale is missing where it is no number.
const groups = (tensor) => {
  const blocks = tensor.eachRow.flatMap((row) => row.blocks);
  const weights = blocks.flatMap((block) => block.weights);
  const withScale = tensor.eachRow[0].scale === undefined ? blocks : tensor.eachRow;
  const scales = tensor.scales ?? withScale.map((each) => each.scale);
  return {
    codes: weights.map((each) => each.code).join(""),
    weights: weights.map((each) => each.weight),
    scales: scales.map((scale) => (typeof scale === "number" ? scale : scale.value ?? null)),
    bits: scales.map((scale) => scale.bits ?? null),
  };
};
const groupTypes = ["q20", "q20G128", "pq20", "ptq10", "tq10", "tq20", "iq1Bn", "iq2Bn", "i2Sr"];

const text = (value) => Buffer.from(value.text).toString("latin1");
for (const file of files) {
  const bytes = fs.readFileSync(file);
  const gguf = new Gguf(new KaitaiStream(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), 0));
  const layouts = process.env.LAYOUTS.split(" ");
  const tensors = gguf.tensorInfos.map((info) => {
    const said = { name: text(info.name), ne: info.ne, type: info.type, offset: info.offset };
    if (info.type === 36) {
      const tensor = info.i2s;
      said.scale = tensor.scale;
      said.codes = {};
      if (tensor.rows * tensor.cols <= 65536) {
        for (const layout of layouts) said.codes[layout] = tensor[layout]?.map((element) => element.code).join("");
        said.trits = tensor.interleave128.map((element) => element.offset1 ?? null);
      }
    }
    for (const name of groupTypes) {
      try {
        if (info[name] !== undefined) (said.groups ??= {})[name] = groups(info[name]);
      } catch (error) {
        if (!/EOF|requested|available/.test(String(error))) throw error; // another type of the same number ends after the file
      }
    }
    return said;
  });
  const keys = gguf.keyValues.map((pair) => text(pair.key));
  console.log(JSON.stringify({ version: gguf.header.version, alignment: gguf.alignment, start: gguf.dataStart, keys, tensors }));
}
