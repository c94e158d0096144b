// Run node-llama-cpp on a file: PACKAGE ANSWER FILE TOKENS VOCABULARY LETTER [TEXT]. With a text, its tokens are the answer.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [packageFolder, answer, path, tokens, vocabulary, , text] = process.argv.slice(2);
const { getLlama } = await import(pathToFileURL(`${packageFolder}/dist/index.js`));

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, maxThreads: 1 });
const model = await llama.loadModel({ modelPath: path, gpuLayers: 0, useMmap: false });
const asked = JSON.parse(tokens);
const result = { loads: true };
if (asked.length > 0) {
  const context = await model.createContext({ contextSize: 256, batchSize: 256, threads: 1 });
  const next = { generateNext: { probabilities: true } };
  const evaluated = await context.getSequence().controlledEvaluate(asked.map((token) => [token, next]));
  // JSON has no infinity: a probability of 0 becomes null.
  result.log_probabilities = evaluated.map(({ next: { probabilities } }) =>
    Array.from({ length: Number(vocabulary) }, (_, i) => Math.log(probabilities.get(i) ?? 0)),
  );
}
if (text !== undefined) result.tokens = model.tokenize(text);
writeFileSync(answer, JSON.stringify(result));
await llama.dispose();
