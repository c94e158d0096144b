// Run @huggingface/gguf on a file: PACKAGE ANSWER FILE.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [packageFolder, answer, path] = process.argv.slice(2);
const { gguf, GGMLQuantizationType } = await import(pathToFileURL(`${packageFolder}/dist/index.js`));
const file = await gguf(path, { allowLocalFile: true, computeParametersCount: true });
const names = new Set(file.tensorInfos.map(({ dtype }) => GGMLQuantizationType[dtype] ?? `${dtype} without a name`));
const shown = `types ${[...names].sort().join(", ")}; ${file.parameterCount} parameters`;
writeFileSync(answer, JSON.stringify({ loads: true, shown }));
