"""This module is an adapter around one function of a shared library: LIBRARY SYMBOL TYPE SIGNATURE.

`i2s conform run --ctypes` runs it as a child process, so that a function that crashes ends only this process. A
signature is `void(u8*,f32*,i64)`: the bytes of a tensor, room for its weights (`f32*`) or trits (`i8*`), and one
integer for the number of elements, or two for rows and columns. A function that returns `int` rejects with a value
other than 0.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

#: The bytes after the buffer for an answer, which show whether a function writes beyond it.
_GUARD: Final = b"\xa5" * 64
_INTEGERS: Final = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
                    "int": ctypes.c_int, "size_t": ctypes.c_size_t}  # fmt: skip
_OUTPUTS: Final = {"f32*": ("dequant", 4), "i8*": ("decode", 1)}


class Signature(NamedTuple):
    """Parameters of a function by their kinds, and whether it returns a status."""

    parameters: tuple[str, ...]
    status: bool

    @property
    def output(self) -> str:
        """The kind of the buffer for the answer."""
        return next(each for each in self.parameters if each in _OUTPUTS)

    @property
    def op(self) -> str:
        """The operation that the function does."""
        return _OUTPUTS[self.output][0]


def parse_signature(text: str) -> Signature:
    """A signature from its text.

    >>> parse_signature("void(u8*, f32*, i64)").op
    'dequant'

    :raises ValueError: for a signature that no decoder has
    """
    found = re.fullmatch(r"\s*(void|int)\s*\(([^()]*)\)\s*", text)
    parameters = tuple(part.strip().replace(" ", "") for part in found[2].split(",")) if found else ()
    kinds = [each for each in parameters if each not in _INTEGERS]
    if (
        found is None
        or kinds[:1] != ["u8*"]
        or len(kinds) != 2
        or kinds[1] not in _OUTPUTS
        or not 1 <= len(parameters) - 2 <= 2
    ):
        raise ValueError(
            f"the signature {text!r} is not that of a decoder; write void(u8*,f32*,i64): void or int, the bytes u8*, the "
            f"answer f32* or i8*, and one integer for the elements or two for rows and columns ({', '.join(_INTEGERS)})"
        )
    return Signature(parameters, found[1] == "int")


def main() -> None:
    """Answer until the input ends."""
    library, symbol, type_, text = sys.argv[1:5]
    signature = parse_signature(text)
    function = getattr(ctypes.CDLL(library), symbol)
    function.restype = ctypes.c_int if signature.status else None
    for line in sys.stdin:
        message = json.loads(line)
        if message["cmd"] == "stop":
            return
        if message["cmd"] == "start":
            about = {"name": f"{Path(library).name}:{symbol}", "language": "c"}
            answer: dict[str, Any] = {"version": 1, "implementation": about, "ops": [signature.op]}
            answer["features"] = _features(type_.lower(), signature.status)
        elif message["cmd"] == "dialect":
            answer = {"ok": True}
        else:
            answer = {"seq": message["seq"], **_answer(function, signature, type_, message)}
        print(json.dumps(answer), flush=True)


def _features(type_: str, status: bool) -> list[str]:
    """What a function of this form can be asked: it takes no layout, and it can refuse only if it returns a status."""
    found = [f"type.{type_}"]
    if type_ == "i2_s":
        found += ["layout.x86-128", "tail.replicated-8"]
    return [*found, "strict.codes"] if status else found


def _answer(function: Any, signature: Signature, type_: str, message: dict[str, Any]) -> dict[str, Any]:
    args = message["args"]
    if str(args.get("type", "i2_s")).lower() != type_.lower():
        return {"skipped": True, "message": f"the function decodes {type_}"}
    cols, *more = [int(n) for n in args["shape"]]
    rows = 1
    for n in more:
        rows *= n
    data = Path(message["input"]["path"]).read_bytes()
    size = rows * cols * _OUTPUTS[signature.output][1]
    room = ctypes.create_string_buffer(bytes(size) + _GUARD, size + len(_GUARD))
    integers = iter([rows, cols] if len(signature.parameters) == 4 else [rows * cols])
    given = {"u8*": ctypes.create_string_buffer(data, len(data)), signature.output: room}
    status = function(
        *(given[each] if each in given else _INTEGERS[each](next(integers)) for each in signature.parameters)
    )
    if room.raw[size:] != _GUARD:
        return {"errored": True, "message": "the function wrote beyond the end of the answer"}
    if signature.status and status:
        return {"rejected": True, "message": f"the function returns {status}"}
    answer = room.raw[:size]
    if message["want"] == "bytes":
        Path(message["output"]["path"]).write_bytes(answer)
    return {"digest": f"sha256:{sha256(answer).hexdigest()}"}


if __name__ == "__main__":
    main()
