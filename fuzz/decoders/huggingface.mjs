// A decoder for `i2s fuzz`: @huggingface/gguf, which reads metadata and the tensor table.
//
// i2s fuzz --reads header -- node fuzz/decoders/huggingface.mjs FOLDER {}
//
// FOLDER holds node_modules; `python tests/peers install @huggingface/gguf` makes one.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(folder, "package.json")));
const { gguf } = require("@huggingface/gguf");

try {
  await gguf(file, { allowLocalFile: true });
} catch (error) {
  console.error(String(error));
  process.exit(1);
}
