// An adapter for 0xBitNet in Node, by Dawn. Arguments: the folder of the repository, with esbuild and webgpu installed beside
// its packages, and the commit. Its forward pass gives the logits of the last token, so it is asked for tokens.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { speak } from "./speak.mjs";

const [folder, commit] = process.argv.slice(2);
for (const name of ["log", "debug", "info", "warn"]) console[name] = console.error; // it prints each tensor
const require = createRequire(join(folder, "package.json"));
const bundle = join(tmpdir(), `oxbitnet-${process.pid}.mjs`);
require("esbuild").buildSync({
  entryPoints: [join(folder, "packages/core/src/index.ts")], outfile: bundle, bundle: true, format: "esm", loader: { ".wgsl": "text" },
});
const { create, globals } = await import(require.resolve("webgpu"));
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) }, configurable: true });
const { BitNetModel, initGPU, loadModel } = await import(bundle);
const { device } = await initGPU();

async function argmax(model, tokens) {
  const logits = model.forward(Uint32Array.from(tokens));
  const size = model.config.vocabSize * 4;
  const copy = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(logits, 0, copy, 0, size);
  device.queue.submit([encoder.finish()]);
  await copy.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(copy.getMappedRange());
  const best = values.reduce((most, value, token) => (value > values[most] ? token : most), 0);
  copy.destroy();
  model.releaseBuffer(logits);
  return best;
}

async function generate(_, path, { tokens, count }) {
  const url = URL.createObjectURL(new Blob([readFileSync(path)]));
  const { config, weights } = await loadModel(url, device);
  const model = BitNetModel.build(device, config, weights);
  const ids = [await argmax(model, tokens)];
  while (ids.length < count) ids.push(await argmax(model, ids.slice(-1)));
  return { json: { ids } };
}

const about = { name: "0xBitNet", version: commit, language: "typescript", source: `github.com/m96-chan/0xBitNet ${commit}` };
await speak(about, ["generate"], ["type.i2_s", "layout.x86-128", "arch.bitnet-b1.58", "arch.llama"], generate);
process.exit(0);
