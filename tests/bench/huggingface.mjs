// Times @huggingface/gguf inside node, so that the start of neither counts.
//
// node huggingface.mjs FOLDER FILE: FOLDER holds node_modules. One line of JSON comes first, with versions; then, for
// each line on stdin, the file is parsed once and one line of JSON says how long it took and how much memory the
// process took at its peak. A digest of what was parsed says whether other readers read the same.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(folder, "package.json")));
const { gguf } = require("@huggingface/gguf");
const version = JSON.parse(
  readFileSync(join(folder, "node_modules", "@huggingface", "gguf", "package.json"), "utf8"),
).version;

// VmHWM is the largest resident set so far, in KiB; writing 5 to clear_refs starts it anew from the present one.
function peak() {
  try {
    return 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "latin1"))[1]);
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}

function restart() {
  try {
    writeFileSync("/proc/self/clear_refs", "5");
  } catch {
    // then the peak includes that of the start
  }
  return peak();
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

say({ version, node: process.version });
for await (const line of createInterface({ input: process.stdin })) {
  const before = restart();
  const start = process.hrtime.bigint();
  const { metadata, tensorInfos } = await gguf(file, { allowLocalFile: true });
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  const grown = peak() - before;
  const plain = Object.entries(metadata).filter(
    // The three counts of the header come as metadata too.
    ([key, value]) => !Array.isArray(value) && !["version", "tensor_count", "kv_count"].includes(key),
  );
  const table = tensorInfos.map(({ name, shape, dtype, offset }) => `${name} ${shape.reverse()} ${dtype} ${offset}\n`);
  const strings = ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"].map((key) => metadata[key].join("\n"));
  say({
    seconds,
    grown,
    digest: { scalars: plain.length, table: sha256(table.join("")), strings: sha256(strings.join("\n")) },
  });
}
