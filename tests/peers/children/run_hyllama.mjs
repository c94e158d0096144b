// Run hyllama on a file: PACKAGE ANSWER FILE.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [packageFolder, answer, path] = process.argv.slice(2);
const { ggufMetadata } = await import(pathToFileURL(`${packageFolder}/src/hyllama.js`));
const data = readFileSync(path);
const file = ggufMetadata(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength));
const numbers = [...new Set(file.tensorInfos.map(({ type }) => type))].sort((a, b) => a - b);
writeFileSync(answer, JSON.stringify({ loads: true, shown: `type numbers ${numbers.join(", ")}` }));
