// Code shared by adapters in JavaScript: the loop that answers requests of the protocol i2s-cp/1.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

// answer(op, path, args) returns a Uint8Array or an object of the protocol, and throws to reject.
export async function speak(implementation, ops, features, answer) {
  for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    let reply;
    if (message.cmd === "stop") break;
    if (message.cmd === "start") reply = { version: 1, implementation, ops, features };
    else if (message.cmd === "dialect") reply = { ok: true };
    else {
      reply = { seq: message.seq };
      try {
        const found = await answer(message.op, message.input.path, message.args);
        if (found instanceof Uint8Array) {
          if (message.want === "bytes") writeFileSync(message.output.path, found);
          reply.digest = "sha256:" + createHash("sha256").update(found).digest("hex");
        } else Object.assign(reply, found);
      } catch (error) {
        Object.assign(reply, { rejected: true, phase: error.phase, message: String(error).slice(0, 300) });
      }
    }
    process.stdout.write(JSON.stringify(reply) + "\n");
  }
}
