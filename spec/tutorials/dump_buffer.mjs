// A storage buffer of WebGPU, or any array of float32, as a NumPy file. The buffer needs the usage COPY_SRC.

export async function floats(device, buffer, count) {
  const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ;
  const copy = device.createBuffer({ size: 4 * count, usage });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, copy, 0, 4 * count);
  device.queue.submit([encoder.finish()]);
  await copy.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(copy.getMappedRange().slice(0));
  copy.destroy();
  return values;
}

export function npy(values, rows, columns) {
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns})}`;
  header = header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11) + "\n";
  const start = [0x93, ..."NUMPY".split("").map((c) => c.charCodeAt(0)), 1, 0, header.length, 0];
  const bytes = new Uint8Array(start.length + header.length + 4 * values.length);
  bytes.set(start);
  bytes.set(new TextEncoder().encode(header), start.length);
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, 4 * values.length), start.length + header.length);
  return bytes; // writeFileSync("mine/Qcur-0.npy", npy(await floats(device, q, n * d), n, d))
}
