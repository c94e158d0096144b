// An adapter for hyllama, which reads key-values and the tensor table. Argument: the folder of the package.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { speak } from "./speak.mjs";

const folder = process.argv[2];
const { ggufMetadata } = await import(pathToFileURL(`${folder}/src/hyllama.js`));
const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`));

await speak({ name, version, language: "javascript", source: `npm ${name} ${version}` }, ["container"], ["type.i2_s"], (op, path) => {
  const data = readFileSync(path);
  const { tensorInfos } = ggufMetadata(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength));
  return { verdict: "valid", message: `${tensorInfos.length} tensors` };
});
