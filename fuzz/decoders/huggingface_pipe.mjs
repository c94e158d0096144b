// @huggingface/gguf over a pipe: for each path on stdin one line of JSON says whether it accepts the file.
//
// node huggingface_pipe.mjs FOLDER: FOLDER holds node_modules.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(join(process.argv[2], "package.json")));
const { gguf } = require("@huggingface/gguf");
const plain = (key, value) => (typeof value === "bigint" ? value.toString() : value);

for await (const path of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { tensorInfos } = await gguf(path, { allowLocalFile: true });
    const table = tensorInfos.map(({ name, shape, dtype, offset }) => [name, shape.map(String), dtype, String(offset)]);
    answer = { accepted: true, table };
  } catch (error) {
    answer = { accepted: false, why: String(error).slice(0, 200) };
  }
  process.stdout.write(JSON.stringify(answer, plain) + "\n");
}
