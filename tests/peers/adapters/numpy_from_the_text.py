"""An adapter in Python with only NumPy, written from the specification: payloads of I2_S and of types with groups.

i2s conform run -- python tests/peers/adapters/numpy_from_the_text.py
"""

from pathlib import Path

import numpy as np
from speak import RejectedError, speak

# fmt: off
# Clause 5.5: the byte of element k, and the shift of its code there; 9 means undefined.
LAYOUTS = {
    "x86-128": lambda k, cols: (k // 128 * 32 + k % 32, 6 - k % 128 // 32 * 2),
    "arm-64": lambda k, cols: (k // 64 * 16 + k % 16, 6 - k % 64 // 16 * 2),
    "rows-1x4": lambda k, cols: (k // cols // 4 * cols + k % cols, 6 - k // cols % 4 * 2),
    "sequential-msb": lambda k, cols: (k // 4, 6 - k % 4 * 2),
    "sequential-lsb": lambda k, cols: (k // 4, k % 4 * 2),
}
CODES = {"offset-1": (-1, 0, 1, 9), "zero-first": (0, 1, -1, 9), "twos-complement": (0, 1, 9, -1), "offset-2": (9, -1, 0, 1)}
# Clause 5.6: elements and bytes of a block, where its F16 scale is, and the byte and shift of element k.
BLOCKS = {
    "q2_0": (64, 18, 0, lambda k: (2 + k // 4, k % 4 * 2)),
    "q2_0.g128": (128, 34, 0, lambda k: (2 + k // 4, k % 4 * 2)),
    "pq2_0": (128, 34, 0, lambda k: (2 + k // 4, k % 4 * 2)),
    "tq2_0": (256, 66, 64, lambda k: (k // 128 * 32 + k % 32, k % 128 // 32 * 2)),
}
# fmt: on
FEATURES = ["type.i2_s", "subnormals", "big-endian", "tail.replicated-8", "strict.codes", "strict.extent"]
FEATURES += [
    f"{kind}.{name}" for kind, all in (("layout", LAYOUTS), ("type", BLOCKS), ("codes", CODES)) for name in all
]


def decode(data, args):
    """Values as int8, and scales as float32."""
    cols, rows = args["shape"]
    k = np.arange(rows * cols)
    if args["type"] == "i2_s":
        size = rows * cols // 4
        if len(data) != size + 32:
            raise RejectedError("extent", f"{len(data)} bytes; expected {size + 32}")
        byte, shift = LAYOUTS[args["layout"]](k, cols)
        whole = byte < size  # elements outside of whole blocks are 0
        codes = np.frombuffer(data, np.uint8)[np.where(whole, byte, 0)] >> shift & 3
        trits = np.where(whole, np.array(CODES[args.get("codes", "offset-1")], np.int8)[codes], np.int8(0))
        if (trits == 9).any():
            raise RejectedError("payload", f"element {int((trits == 9).argmax())} has an undefined code")
        order = ">f4" if args.get("byte_order") == "big" else "<f4"
        return trits, np.frombuffer(data, order, 1, size).astype(np.float32)
    block, size, at, place = BLOCKS[args["type"]]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, size)
    byte, shift = place(np.arange(block))
    codes = blocks[:, byte] >> shift & 3
    if args["type"] == "tq2_0" and (codes == 3).any():
        raise RejectedError("payload", "code 3")
    scales = np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)
    return codes.astype(np.int8) - np.int8(1), scales


def answer(op, path, args):
    """Bytes of trits as int8, or of weights as float32."""
    values, scales = decode(Path(path).read_bytes(), args)
    if op == "decode":
        return values.tobytes()
    with np.errstate(all="ignore"):
        return (values.astype("<f4").reshape(values.shape if scales.size > 1 else -1) * scales).astype("<f4").tobytes()


speak(
    {"name": "NumPy, from the text", "version": np.__version__, "language": "python"},
    ["decode", "dequant"],
    answer,
    FEATURES,
)
