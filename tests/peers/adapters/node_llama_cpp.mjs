// An adapter for the reader of GGUF in node-llama-cpp, which is separate from llama.cpp. Argument: the folder of the package.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { speak } from "./speak.mjs";

const folder = process.argv[2];
console.log = console.warn = console.error;
const { readGgufFileInfo } = await import(pathToFileURL(`${folder}/dist/index.js`));
const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`));

await speak({ name, version, language: "javascript", source: `npm ${name} ${version}` }, ["container"], ["type.i2_s"], async (op, path) => {
  const { fullTensorInfo } = await readGgufFileInfo(path, { sourceType: "filesystem", logWarnings: false });
  return { verdict: "valid", message: `${fullTensorInfo?.length} tensors` };
});
