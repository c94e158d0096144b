// An adapter for @huggingface/gguf, which reads key-values and the tensor table. Argument: the folder of the package.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { speak } from "./speak.mjs";

const folder = process.argv[2];
const { gguf } = await import(pathToFileURL(`${folder}/dist/index.js`));
const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`));

await speak({ name, version, language: "javascript", source: `npm ${name} ${version}` }, ["container"], ["type.i2_s", "big-endian", "gguf.v2"],
  async (op, path) => {
    const { tensorInfos } = await gguf(path, { allowLocalFile: true });
    return { verdict: "valid", message: `${tensorInfos.length} tensors` };
  });
