"""This module measures the codec of types with a scale for each group, as a part of `codec`.

Every job is measured beside a copy that moves as many bytes as it reads and writes, in the same round: a ratio of 1
means that it is as fast as memory. Counting codes is compared with reading the same bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.measure import Claim, Contender, Result, Row, interleaved, ratios, timed
from bench.parts import Benchmark, Setting
from i2s_spec.codec import _codec, isa
from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.schema.block_layout import GROUP_LAYOUTS

COLS = 2560


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order; Q2_0_G128 is PQ2_0 under another number."""
    names = [name for name in GROUP_LAYOUTS if name != "Q2_0_G128"]
    return [Benchmark(name, partial(_blocks, name=name)) for name in names]


def _blocks(setting: Setting, name: str) -> Result:
    """All operations on a tensor from and to memory, with one thread."""
    rows = 256 if setting.quick else 55296
    shape = rows, COLS
    values = np.resize(np.random.default_rng(1).integers(-1, 2, (256, COLS), dtype=np.int8), shape)
    packed = np.frombuffer(block_native.pack(values, 0.5, name), dtype=np.uint8).copy()
    assert packed.size == blocks_of(shape, name).nbytes
    target = np.zeros(packed.size, dtype=np.uint8)
    bytes_out = _aligned(values.size).view(np.int8).reshape(shape)
    # Float results are written into the same memory repeatedly; all at once they would take half a gigabyte.
    part = rows // 4
    floats_out = _aligned(4 * part * COLS).view(np.float32).reshape(part, COLS)
    part_packed = np.frombuffer(block_native.pack(values[:part], 0.5, name), dtype=np.uint8).copy()
    traffic = {
        "unpack": packed.size + values.size,
        "pack": packed.size + values.size,
        "dequantize": part_packed.size + 4 * part * COLS,
    }
    copies = {
        job: (np.ones(size // 2, dtype=np.uint8), np.zeros(size // 2, dtype=np.uint8)) for job, size in traffic.items()
    }
    row = isa.chosen().row
    contenders = [
        *(Contender(f"copy for {job}", timed(partial(_copy, *pair)), 3) for job, pair in copies.items()),
        Contender("read probe", timed(lambda: _codec.read(row, packed)), 3),
        Contender("unpack", timed(lambda: block_native.unpack(packed, shape, name, out=bytes_out)), 3),
        Contender("pack", timed(lambda: block_native.pack(values, 0.5, name, out=target)), 3),
        Contender(
            "dequantize", timed(lambda: block_native.dequantize(part_packed, (part, COLS), name, out=floats_out)), 3
        ),
        Contender("histogram", timed(lambda: block_native.histogram(packed, shape, name)), 3),
    ]
    times = interleaved(contenders, setting.rounds, setting.say)
    goal = None if setting.quick else 1.0
    claims = [
        Claim(f"{name}, {job}: traffic over the copy's", ratios(times[f"copy for {job}"], times[job]), "x", least=goal)
        for job in traffic
    ]
    claims.append(
        Claim(f"{name}, histogram: bytes over the read probe's", ratios(times["read probe"], times["histogram"]), "x")
    )
    sizes = {**traffic, "histogram": packed.size}
    probes = {"read probe": ("read probe", packed.size), "copy probe": ("copy for unpack", traffic["unpack"])}
    found = tuple(
        Row(name, tuple(size / t / 1e9 for t in times[ran]), "GB/s of traffic")
        for name, (ran, size) in {**probes, **{job: (job, size) for job, size in sizes.items()}}.items()
    )
    title = f"{name}: {packed.size >> 20} MB packed, one thread, kernels {isa.chosen(block_native.kernel_sets()).name}"
    return Result(title, found, tuple(claims))


def _copy(source: Any, target: Any) -> None:
    np.copyto(target, source)


def _aligned(nbytes: int) -> Any:
    raw = np.zeros(nbytes + 64, dtype=np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + nbytes]
