"""The codec: every set of kernels gives the same result as the definition, or refuses with the same message.

The first eight bytes of an input choose dialects, shape, byte order, strictness and threads, and the operation: the
tensor is unpacked and packed, or taken as weights to quantize, as a tensor of another type that can hold trits, as trits
with invalid values, or as a payload to survey. The rest is the tensor, repeated or cut to its size, or left as it is.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy as np
from harness import replayed, require_answers, search

from i2s_spec.codec import _survey, native, quantize, reference
from i2s_spec.codec import native as readers
from i2s_spec.codec import quantize as mean
from i2s_spec.codec import reference as recode
from i2s_spec.codec.change_groups import BLOCK_TYPES, pack_blocks, unpack_blocks
from i2s_spec.codec.encoding import TERNARY_TYPES, TernaryEncoding, Trits
from i2s_spec.codec.isa import VARIABLE, chosen, kernel_sets
from i2s_spec.codec.observation import BLOCK, PayloadObservation, classify
from i2s_spec.codec.quantized import TYPES
from i2s_spec.codec.reference import observe, unpack_codes
from i2s_spec.codec.shape import matrix
from i2s_spec.inspect.survey_reader import look_at
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect
from i2s_spec.schema.types import TAIL_BYTES

_DIALECTS = [
    Dialect(layout, code_map, tail)
    for layout in LAYOUTS.values() for code_map in CODE_MAPS.values() for tail in TAILS.values()
]  # fmt: skip
_COLUMNS = (128, 64, 256, 32, 4, 132, 192, 1, 384, 130, 16, 96, 512, 3, 640, 0)
_CODE3 = (*get_args(reference.UnusedCode), "no policy")
HEAD = 8


def outcome(function: Callable[[], Any]) -> Any:
    """The result of a function in a form that compares bit for bit, or its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the result is returned in spite of the warning
        try:
            given = function()
        except (ValueError, TypeError) as error:
            return type(error).__name__, str(error)
    parts = given if isinstance(given, tuple) else (given,)
    return [
        (part.dtype.str, part.shape, part.tobytes()) if isinstance(part, np.ndarray | np.generic) else part
        for part in parts
    ]


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    head = data[:HEAD].ljust(HEAD, b"\0")
    task = _TASKS[head[7] % len(_TASKS)]
    task(head, data[HEAD:])
    require_answers(
        data, f"encode in.npy a.bin --dialect {_DIALECTS[head[0] % len(_DIALECTS)]}", "encode trits.npy b.bin --scale 0.5",
        in__npy=_npy(data, "<f4"), trits__npy=_npy(data, "i1"),
    )  # fmt: skip


def _npy(data: bytes, dtype: str) -> bytes:
    """Bytes as an array file: one row, and as many whole rows of 128 as there are."""
    array = np.frombuffer(data[: len(data) // 4 * 4], dtype=dtype)
    stream = io.BytesIO()
    np.save(stream, array[: array.size // 128 * 128].reshape(-1, 128) if array.size >= 128 else array[None])
    return stream.getvalue()


def _unpacked(head: bytes, tensor: bytes) -> None:
    """Unpacked, scanned, recoded and packed: every kernel set against the definition."""
    source, target = _DIALECTS[head[0] % len(_DIALECTS)], _DIALECTS[head[1] % len(_DIALECTS)]
    rows, cols = head[2] % 20, _COLUMNS[head[3] % len(_COLUMNS)]
    order = "big" if head[4] & 1 else "little"
    strict, exact = not head[4] & 2, not head[4] & 4
    unused_code: Any = _CODE3[head[5] % len(_CODE3)]
    leading = (2,) if head[6] & 1 else (1,) if head[6] & 2 else ()
    threads, repeated = (1, 3, 0, 2)[head[6] >> 4 & 3], head[6] & 64
    rows *= 256 if repeated and cols <= 512 else 1
    if exact and repeated and head[5] & 16:  # unusual values come late
        tensor = bytes(max(0, rows * cols // 4 - 1024)) + tensor
    if exact:
        size = rows * cols // 4 + 32
        tensor = (tensor * (size // len(tensor) + 1))[:size] if tensor else bytes(size)
    shape = (*leading, rows, cols)
    more: Any = {"byte_order": order, "strict": strict}

    def each(codec: Any, **with_threads: Any) -> list[Any]:
        every = more | with_threads
        plain = {"strict": strict} | with_threads
        return [
            outcome(lambda: codec.unpack(tensor, shape, source, **every, unused_code=unused_code)),
            outcome(lambda: codec.dequantize(tensor, shape, source, **every, unused_code=unused_code)),
            outcome(lambda: codec.histogram(tensor, shape, **plain)),
            outcome(lambda: tuple(codec.scan(tensor, shape, source, **plain))),
            outcome(lambda: codec.transcode(tensor, shape, source, target, **every)),
        ]

    wanted = each(_Definition)
    with _restored_environment():
        for kernels in kernel_sets():
            if kernels.available:
                os.environ[VARIABLE] = kernels.name
                got = each(native, threads=threads)
                if threads:
                    assert got == wanted, kernels.name
                else:  # refused, except where no kernel is called
                    assert all(a == b or a[0] == "ValueError" for a, b in zip(got, wanted, strict=True))
        os.environ[VARIABLE] = ("", "avxvnni", "nothing", "avx512vl", "neon")[head[6] >> 4 & 3]
        outcome(chosen)
    _packed_again(tensor, shape, source, more)
    _into(tensor, shape, source, target, more)


@contextmanager
def _restored_environment() -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def _into(tensor: bytes, shape: tuple[int, ...], source: Dialect, target: Dialect, more: Any) -> None:
    """A caller's buffer gets the same bytes as a new one; a buffer that does not fit is refused."""
    size = min(max(0, math.prod(shape)), 1 << 20)
    flat = len(shape) == 2
    for kind, function in ((np.int8, native.unpack), (np.float32, native.dequantize)):
        wanted = outcome(partial(function, tensor, shape, source, **more))
        if flat and size == math.prod(shape):
            out = np.empty(shape, dtype=kind)
            assert outcome(partial(function, tensor, shape, source, **more, out=out)) == wanted
        for odd in (
            np.empty((size, 2), dtype=kind)[:, 0],
            np.empty(size + 1, dtype=kind),
            np.empty(shape[::-1], dtype=kind).T,
        ):
            outcome(partial(function, tensor, shape, source, **more, out=odd))
    room = bytearray(len(tensor))
    wanted = outcome(lambda: native.transcode(tensor, shape, source, target, **more))
    got = outcome(lambda: native.transcode(tensor, shape, source, target, **more, out=room))
    assert got == wanted or got == [room] == wanted
    for bad in (tensor, bytes(len(tensor)), bytearray(len(tensor) + 1), memoryview(bytearray(2 * len(tensor)))[::2]):
        outcome(partial(native.transcode, tensor, shape, source, target, **more, out=bad))
    whole = bytearray(tensor)
    outcome(lambda: native.transcode(whole, shape, source, target, **more, out=whole))


def _quantized(head: bytes, content: bytes) -> None:
    """Weights of every kind: a tensor that can be read again, or a refusal."""
    kinds = ("<f4", "<f2", "<u2", "<f8", "<i2", "u1", "<c8", "S1")
    kind, rule = np.dtype(kinds[head[0] % len(kinds)]), (*quantize.RULES, "no rule")[head[1] % 5]
    rows, cols = head[2] % 9, _COLUMNS[head[3] % len(_COLUMNS)]
    rows *= 2048 if head[6] & 1 else 1
    size = rows * cols * kind.itemsize
    content = (content * (size // len(content) + 1))[:size] if content else bytes(size)
    weights = np.frombuffer(content, dtype=kind).reshape(
        (2, 1, -1, cols) if head[6] & 2 and rows % 2 == 0 and size else (rows, cols)
    )
    scale = (None, 0.5, 1e39, math.nan)[head[5] % 4]
    dialect = _DIALECTS[head[4] >> 2 & 63 % len(_DIALECTS)]
    strict = not head[4] & 2
    made = outcome(lambda: quantize.quantize(weights, rule, scale, dialect, strict))
    outcome(lambda: quantize.ternarise(weights, rule, scale))
    back = outcome(lambda: quantize.weight_quant(weights))
    if made[0] not in ("ValueError", "TypeError"):
        outcome(lambda: native.unpack(made[0], weights.shape, dialect, strict=strict, unused_code="zero"))
        assert isinstance(back, list)
    if kind.char == "f" and weights.size:
        flat = np.abs(weights.reshape(-1))
        with np.errstate(all="ignore"):
            ours = mean.numpy_mean(lambda start, stop: flat[start:stop], flat.size)
            theirs = np.float32(flat.mean()) if flat.size <= 1 << 20 else ours
        assert ours.tobytes() == theirs.tobytes() or np.isnan(ours)


def _formed(head: bytes, content: bytes) -> None:
    """A tensor of any type that can hold trits: the same trits and scale in windows with any number of threads."""
    kind = (*TERNARY_TYPES, "Q8_0")[head[0] % (len(TERNARY_TYPES) + 1)]
    cols = (256, 512, 128, 64, 7, 0, 1024)[head[3] % 7]
    shape = ((head[2] % 9, cols), (2, head[2] % 9, cols), (cols,), ())[head[4] >> 1 & 3]
    shape = (shape[0] * 2048, *shape[1:]) if head[6] & 1 and len(shape) == 2 and shape[1] <= 512 else shape
    dialect, order = _DIALECTS[head[1] % len(_DIALECTS)], "big" if head[4] & 1 else "little"
    form = outcome(lambda: TernaryEncoding(kind, shape, dialect, order))  # type: ignore[arg-type]
    if form[0] in ("ValueError", "TypeError"):
        return
    size = form[0].byte(form[0].elements) + (TAIL_BYTES if kind == "I2_S" else 0)
    content = (content * (size // len(content) + 1))[:size] if content else bytes(size)
    unused: Any = "zero" if head[5] & 1 else "reject"

    def whole(threads: int) -> Any:
        return outcome(lambda: Trits(form[0], lambda start, stop: content[start:stop], unused).whole(threads))

    one = whole(1)
    assert whole(3) == one
    assert whole(0)[0] in ("ValueError", "NotTernaryError", "UnusedCodeError")
    if kind in BLOCK_TYPES and one[0] not in ("ValueError", "NotTernaryError", "UnusedCodeError"):
        trits, scale = Trits(form[0], lambda start, stop: content[start:stop], unused).whole()
        again = outcome(lambda: pack_blocks(trits, scale, kind, order))  # type: ignore[arg-type]
        if again[0] != "ValueError":
            read, _ = unpack_blocks(again[0], shape, kind, order)  # type: ignore[arg-type]
            assert np.array_equal(read, trits)


def _odd_trits(head: bytes, content: bytes) -> None:
    """Trits with unusual values and types are refused or packed alike."""
    kinds = ("i1", "u1", "<i2", "<i8", "<u8", "<f4")
    kind, dialect = np.dtype(kinds[head[0] % len(kinds)]), _DIALECTS[head[1] % len(_DIALECTS)]
    cols = _COLUMNS[head[3] % len(_COLUMNS)]
    values = np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], dtype=kind)
    size = head[2] % 9 * cols
    values = np.resize(values, size) if values.size else np.zeros(size, kind)
    if head[5] & 1:
        values = (values % 3).astype("i1") - np.int8(1) if kind.kind != "f" else values
    trits = values.reshape(
        (2, -1, cols) if head[6] & 1 and cols and size // cols % 2 == 0 else (-1, cols) if size else (head[2] % 9, cols)
    )
    scale: Any = (0.5, 1e39, math.inf, np.float32(2), [0.5], [0.5, 0.25], "x")[
        head[5] >> 1 & 7 if head[5] >> 1 & 7 < 7 else 0
    ]
    more: Any = {"strict": not head[4] & 2}
    wanted = outcome(lambda: reference.pack(trits, scale, dialect, **more))
    for threads in (1, 2):
        got = outcome(partial(native.pack, trits, scale, dialect, **more, threads=threads))
        assert got == wanted or [bytes(got[0])] == wanted, (got, wanted)
    room = bytearray(len(wanted[0]) if isinstance(wanted[0], bytes) else 40)
    outcome(lambda: native.pack(trits, scale, dialect, **more, out=room))
    assert not isinstance(wanted[0], bytes) or bytes(room) == wanted[0]
    for each in (*BLOCK_TYPES, "Q8_0"):
        outcome(partial(pack_blocks, values.reshape(trits.shape), 0.5 if head[4] & 4 else scale, each))
        outcome(partial(unpack_blocks, content, trits.shape, each))
    outcome(lambda: matrix(trits.shape))
    outcome(lambda: unpack_codes(content, trits.shape[-2:], dialect.layout))
    for name in (*readers.READERS, "nobody"):
        outcome(partial(readers.read_as, name, content, trits.shape[-2:]))


#: Types that are looked at neither as codes nor as floats: with scales in blocks, or nothing but bytes.
_BLOCKS = ("I8", *TYPES)


def _surveyed(head: bytes, content: bytes) -> None:
    """The compiled survey gives the same result as the definition."""
    width, mask = ((0, 0), (1, 0), (2, 0x7C00), (4, 0x7F800000), (2, 0x007C))[head[0] % 5]
    content = (content * (1 + head[2] % 20 * (1 + head[3] % 60)))[: 40_000 - head[1]]
    pos = head[4] * BLOCK
    scales = None
    if width == 1:  # scales of a type that is not ternary, and with the mask of one
        kind = _BLOCKS[head[5] % len(_BLOCKS)]
        width, mask, scales, _ = look_at(kind, bool(head[6] & 1))
    wanted = observe(content, pos, width, mask, scales)
    for name, available in _survey.kernel_sets():
        if available:
            parts = _survey.Parts(name)
            parts.add(0, pos, len(content), 0, width, mask, scales)
            parts.feed(0, content, b"")
            got = PayloadObservation(*parts.found(0))
            assert got._replace(counts=wanted.counts if width else got.counts) == wanted, name
    tail = outcome(lambda: classify(content[-TAIL_BYTES:]))
    assert tail[0] in ("zero", "replicated", "stale", "ValueError")


_TASKS = (_unpacked, _quantized, _formed, _odd_trits, _surveyed)


class _Definition:
    """The definitions of all functions of `native`."""

    unpack, dequantize, pack = (staticmethod(f) for f in (reference.unpack, reference.dequantize, reference.pack))
    histogram, scan, transcode = (staticmethod(f) for f in (recode.histogram, recode.scan, recode.transcode))


def _packed_again(tensor: bytes, shape: tuple[int, ...], dialect: Dialect, more: Any) -> None:
    """A strictly unpacked payload is packed to the same bytes, except for those without meaning."""
    if not more["strict"]:
        return
    try:
        trits, scale = native.unpack(tensor, shape, dialect, byte_order=more["byte_order"])
        made = native.pack(trits, scale, dialect, byte_order=more["byte_order"])
    except ValueError:
        return
    meaning = trits.size // 4 + 4 * dialect.tail.copies
    assert bytes(made)[:meaning] == tensor[: trits.size // 4] + bytes(made)[trits.size // 4 : meaning]
    again, same = native.unpack(made, shape, dialect, byte_order=more["byte_order"])
    assert np.array_equal(again, trits)
    assert np.float32(same).tobytes() == np.float32(scale).tobytes()


@replayed("payload")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_random_payloads() -> None:
    for i in range(250):
        chance = Random(i)
        head = bytes(chance.randrange(256) for _ in range(HEAD - 1)) + bytes((i % 2 * (i % 5),))
        codes = chance.choice((b"\x15", b"\x00\x55\xaa", b"\xff", b"\x1b", chance.randbytes(40)))
        one_input(head + codes * chance.choice((1, 7, 50)))


if __name__ == "__main__":
    search(one_input, gguf=False)
