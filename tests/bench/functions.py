"""Public functions against their kernels: what a caller pays beside the work, for tensors of a megabyte and more.

A kernel is the call of the compiled function that does the work of a public one, on arrays that are there, with one thread.
Where a function returns new memory, so does what it is compared with: the system clears new pages, which takes longer than
most kernels. Functions check and look for code 3; kernels do not. The clock is that of the process: what else runs on the
machine does not count.

`quantize` and `weight_quant` have no kernel. They are NumPy's operations, which follow released programs step by step; the
import of checkpoints has kernels of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import i2s_spec as i2s
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, fastest, interleaved, ratios
from i2s_spec.codec import isa, kernels
from i2s_spec.errors import counted
from i2s_spec.model import _matmul
from i2s_spec.model.reference import matmul
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, LAYOUTS

SHAPES = [(2560, 2560), (6912, 2560), (2560, 6912)]
SMALL = (256, 256)
#: Calls of which the shortest counts, in each round, by tokens.
CALLS = {1: 31, 64: 5}
ROUNDS = 9
#: How many times its kernel a function may take: any, products of several tokens, and of one by a prepared matrix.
MOST, MOST_64, MOST_PREPARED = 2.0, 1.1, 1.3
SCALE = np.float32(0.3)
TIMES = "x its kernel"


class Pair(NamedTuple):
    """A public function, what its kernel takes, and how many times that it may take."""

    name: str
    function: Callable[[], object]
    kernel: Callable[[], object]
    most: float = MOST


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        *(Benchmark(f"products-{tokens}", partial(_products, tokens=tokens)) for tokens in CALLS),
        Benchmark("tensors", _tensors),
    ]


def _products(setting: Setting, tokens: int) -> Result:
    """`bitlinear` and `integer_product` with weights in every form, against activations to codes and the product."""
    pairs = [pair for shape in ([SMALL] if setting.quick else SHAPES) for pair in _of_shape(shape, tokens)]
    title = f"products of {counted(tokens, 'token')}, kernels {isa.chosen(matmul.kernel_sets()).name}"
    return _compared(setting, pairs, CALLS[tokens], title)


def _of_shape(shape: tuple[int, int], tokens: int) -> list[Pair]:
    rows, columns = shape
    rng, row = np.random.default_rng(rows), isa.chosen(matmul.kernel_sets()).row
    trits = rng.integers(-1, 2, shape, dtype=np.int8)
    data = np.frombuffer(i2s.pack(trits, SCALE), dtype=np.uint8)
    payload, ready = data[:-32], i2s.prepare(data, shape)
    x = rng.standard_normal((tokens, columns)).astype(np.float32)
    made, out = matmul.quantize_activations(x), np.empty((tokens, rows), dtype=np.int32)
    packed = np.empty(payload.size, dtype=np.uint8)
    where = kernels.run_layout(CANONICAL.layout, rows, columns)

    def product() -> None:
        _matmul.product(row, payload, rows, made.codes, out, 1)

    def both() -> None:
        _matmul.quantize(row, x, *made, 1)
        product()

    def pass_and_both() -> None:
        kernels.pack(trits.reshape(-1).view(np.uint8), where, CANONICAL.code_map, packed, 1)
        both()

    most, most_prepared = (MOST, MOST_PREPARED) if tokens == 1 else (MOST_64, MOST_64)
    at = f"{rows:,} x {columns:,}"
    return [
        Pair(f"bitlinear, prepared: {at}", lambda: i2s.bitlinear(x, ready), both, most_prepared),
        Pair(f"bitlinear, bytes: {at}", lambda: i2s.bitlinear(x, data, None, shape), both, most),
        Pair(f"bitlinear, trits: {at}", lambda: i2s.bitlinear(x, trits, 0.3), pass_and_both, most),
        Pair(f"integer_product, prepared: {at}", lambda: i2s.integer_product(ready, made.codes), product, most_prepared),
        Pair(
            f"integer_product, bytes: {at}", lambda: i2s.integer_product(payload, made.codes, shape), product, most,
        ),
    ]  # fmt: skip


def _tensors(setting: Setting) -> Result:
    """The functions of whole tensors, and of rows."""
    shape = rows, columns = SMALL if setting.quick else SHAPES[0]
    rng, size = np.random.default_rng(1), rows * columns
    trits = rng.integers(-1, 2, shape, dtype=np.int8)
    data, row = i2s.pack(trits, SCALE), isa.chosen(matmul.kernel_sets()).row
    payload, elements = np.frombuffer(data, dtype=np.uint8)[:-32], trits.reshape(-1).view(np.uint8)
    where, meaning = kernels.run_layout(CANONICAL.layout, rows, columns), CODE_MAPS["offset-1"]
    other = "interleave-64"
    broken = np.frombuffer(data, dtype=np.uint8).copy()
    broken[payload.size - 1] |= 3
    wanted = rng.integers(0, rows, rows // 5)
    by_row = payload.reshape(rows, -1)
    with i2s.Writer(setting.folder / "tensor.gguf") as writer:
        writer.add_tensor("w", shape, "I2_S", data)
    tensor = i2s.open(setting.folder / "tensor.gguf").tensors["w"]
    x = rng.standard_normal((rows // 10, columns)).astype(np.float32)
    trits_out, floats_out, bytes_out = np.empty(shape, np.int8), np.empty(shape, np.float32), bytearray(len(data))

    def new(count: int, kind: Any) -> Any:
        return np.empty(count, dtype=kind)

    def unpack(code_map: Any, out: Any = None) -> None:
        kernels.unpack(payload, where, code_map, new(size, np.uint8) if out is None else out, 1)

    def floats(source: Any, out: Any) -> None:
        kernels.floats(source, where, meaning, SCALE, out, 1)

    def recode(out: Any) -> None:
        kernels.recode(payload, rows, columns, CANONICAL.layout, LAYOUTS[other], (0, 1, 2, 3), out, 1)

    def pack(out: Any) -> None:
        kernels.pack(elements, where, meaning, out, 1)

    def counted_twice() -> None:
        kernels.occurs(payload, 3, 1)
        kernels.histogram(payload, 1)

    def activations() -> None:
        kinds = new((len(x), columns), np.int8), new(len(x), np.float32), new(len(x), np.int32)
        _matmul.quantize(row, x, *kinds, 1)

    def rows_read() -> None:
        floats(by_row[wanted].reshape(-1), new(len(wanted) * columns, np.float32))

    into = np.frombuffer(bytes_out, dtype=np.uint8)[:-32]
    pairs = [
        Pair("unpack", lambda: i2s.unpack(data, shape), lambda: unpack(meaning)),
        Pair(
            "unpack, out=", lambda: i2s.unpack(data, shape, out=trits_out),
            lambda: unpack(meaning, trits_out.reshape(-1).view(np.uint8)),
        ),
        Pair("dequantize", lambda: i2s.dequantize(data, shape), lambda: floats(payload, new(size, np.float32))),
        Pair(
            "dequantize, out=", lambda: i2s.dequantize(data, shape, out=floats_out),
            lambda: floats(payload, floats_out.reshape(-1)),
        ),
        Pair("Tensor.trits", tensor.trits, lambda: (tensor.read(), unpack(meaning))),
        Pair(
            "Tensor.dequantize", tensor.dequantize,
            lambda: (tensor.read(), floats(payload, new(size, np.float32))),
        ),
        Pair("get_rows", lambda: i2s.get_rows(data, wanted, shape), rows_read),
        Pair("get_rows, reader=", lambda: i2s.get_rows(data, wanted, shape, reader="get-rows"), rows_read),
        Pair("pack", lambda: i2s.pack(trits, SCALE), lambda: pack(new(size // 4, np.uint8))),
        Pair("pack, out=", lambda: i2s.pack(trits, SCALE, out=bytes_out), lambda: pack(into)),
        Pair("transcode", lambda: i2s.transcode(data, shape, "canonical", other), lambda: recode(new(size // 4, np.uint8))),
        Pair("transcode, out=", lambda: i2s.transcode(data, shape, "canonical", other, out=bytes_out), lambda: recode(into)),
        Pair("histogram", lambda: i2s.histogram(data, shape), lambda: kernels.histogram(payload, 1)),
        Pair("scan", lambda: i2s.scan(data, shape), lambda: kernels.occurs(payload, 3, 1)),
        Pair("scan, last code is 3", lambda: i2s.scan(broken, shape), counted_twice),
        Pair(
            "read_as", lambda: i2s.read_as("get-rows", data, shape),
            lambda: (unpack(None), np.ones(size, dtype=np.bool_)),
        ),
        Pair("quantize_activations", lambda: i2s.quantize_activations(x), activations),
        Pair("prepare, trits", lambda: i2s.prepare(trits), lambda: pack(new(size // 4, np.uint8))),
        Pair("prepare, bytes", lambda: i2s.prepare(data, shape), lambda: kernels.occurs(payload, 3, 1)),
    ]  # fmt: skip
    title = f"functions of a tensor of {rows:,} x {columns:,}, kernels {isa.chosen().name}"
    return _compared(setting, pairs, CALLS[1], title)


def _compared(setting: Setting, pairs: list[Pair], calls: int, title: str) -> Result:
    """All functions and kernels in turn, the shortest of some calls in each round, and the ratios."""
    contenders = []
    for pair in pairs:
        pair.function(), pair.kernel()  # the first call imports and fills caches
        contenders += [
            Contender(f"function, {pair.name}", fastest(pair.function, calls, clock=process_time)),
            Contender(f"kernel, {pair.name}", fastest(pair.kernel, calls, clock=process_time)),
        ]
    times = interleaved(contenders, setting.rounds if setting.quick else max(setting.rounds, ROUNDS), setting.say)
    rows, claims = [], []
    for pair in pairs:
        function, kernel = times[f"function, {pair.name}"], times[f"kernel, {pair.name}"]
        each = ratios(function, kernel)
        rows.append(Row(pair.name, each, TIMES))
        claims.append(Claim(f"{pair.name}: times its kernel", each, "x", most=None if setting.quick else pair.most))
    seconds = [
        Row(f"{name} ({what})", times[f"{what}, {name}"], "s") for name, *_ in pairs for what in ("function", "kernel")
    ]
    notes = (
        "one thread, processor time; a kernel is the compiled function alone, with new memory where the function returns it",
    )
    return Result(title, (*rows, *seconds), tuple(claims), notes)
