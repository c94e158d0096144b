"""An adapter for `i2s conform run`: it decodes I2_S. Replace `decode`, and list what your decoder does."""

import hashlib
import json
import os
import struct
import sys
from pathlib import Path

ABOUT = {"name": "mine", "version": "0.1", "language": "python"}
FEATURES = ["type.i2_s", "layout.x86-128", "rows.partial", "subnormals"]
FEATURES += ["strict.codes", "strict.extent", "strict.shapes"]


def decode(data, columns, rows):
    """Return the trits of a tensor, row by row (sections 5.3 and 5.4), and its scale (section 6.1)."""
    count = columns * rows
    if count % 128:
        raise ValueError("info", "the last block is not whole")
    if len(data) != count // 4 + 32:
        raise ValueError("extent", f"{len(data)} bytes, not {count // 4 + 32}")
    codes = [data[k // 128 * 32 + k % 32] >> (6 - k % 128 // 32 * 2) & 3 for k in range(count)]
    if 3 in codes:
        raise ValueError("payload", "code 3")
    return [code - 1 for code in codes], struct.unpack_from("<f", data, count // 4)[0]


def answer(message):
    """Answer a `run`."""
    try:
        trits, scale = decode(Path(message["input"]["path"]).read_bytes(), *message["args"]["shape"])
    except ValueError as error:
        return {"rejected": True, "phase": error.args[0], "message": error.args[1]}
    if message["op"] == "decode":
        found = struct.pack(f"{len(trits)}b", *trits)
    else:
        found = struct.pack(f"<{len(trits)}f", *(trit * scale + 0.0 for trit in trits))
    if message["want"] == "bytes":
        Path(message["output"]["path"]).write_bytes(found)
    return {"digest": f"sha256:{hashlib.sha256(found).hexdigest()}"}


def main():
    """Answer until the input ends."""
    lines = os.fdopen(os.dup(1), "w")  # answers go here; what libraries print goes to the error output
    os.dup2(2, 1)
    for line in sys.stdin:
        message = json.loads(line)
        if message["cmd"] == "stop":
            break
        if message["cmd"] == "start":
            reply = {"version": 1, "implementation": ABOUT, "ops": ["decode", "dequant"], "features": FEATURES}
        elif message["cmd"] == "dialect":
            reply = {"ok": message["dialect"] == "x86-128"}
        else:
            reply = {"seq": message["seq"], **answer(message)}
        print(json.dumps(reply), file=lines, flush=True)


main()
