"""This module measures the evidence from a file's weights against reading their payloads.

The probe reads the same payloads by the same `pread` calls into a buffer of the same size, with as many threads, and
does nothing else. Gains are random and a few rows of the feed-forward are all zero, as in trained files, so that every
comparison is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

from bench import processes
from bench.lint import full_size
from bench.measure import Claim, Contender, Result, Row, interleaved, ratios, rows, timed
from bench.parts import Benchmark, Setting
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FileSource
from i2s_spec.inspect.evidence.counted import PIECE
from i2s_spec.inspect.evidence.layout_evidence import layout_evidence
from i2s_spec.inspect.evidence.roles import Matrix, roles
from i2s_spec.schema.dialect import CANONICAL

#: One in this many rows of the feed-forward is zero, about as in the released 2B-4T.
ZERO_ROWS = 35


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("layout", layout), Benchmark("memory", memory)]


def _file(setting: Setting) -> Path:
    """A model of full size with gains and rows like those of trained models; made once for all benchmarks."""
    path = setting.folder / "trained.gguf"
    if path.exists():
        return path
    full_size(setting).rename(path)
    with File(FileSource(path)) as file:
        patches = list(_patches(file))
    with path.open("r+b") as target:
        for at, data in patches:
            target.seek(at)
            target.write(data)
    return path


def _patches(file: File) -> Iterator[tuple[int, bytes]]:
    """Positions and bytes of gains and zero rows."""
    random = np.random.default_rng(5)
    for tensor in file.tensors.values():
        if len(tensor.ne) == 1:
            yield tensor.payload_span.start, random.normal(1, 0.2, tensor.ne[0]).astype("<f4").tobytes()
    for matrix in roles(file).matrices.values():
        if matrix.role in ("ffn_gate", "ffn_up"):
            for row in range(matrix.layer, matrix.rows, ZERO_ROWS):
                yield matrix.start + row * matrix.cols // 4, b"\x55" * (matrix.cols // 4)


def probe(path: Path, threads: int) -> float:
    """Seconds for reading the payloads that the evidence uses."""
    with File(FileSource(path)) as file:
        matrices = iter(list(roles(file).matrices.values()))
        lock = threading.Lock()

        def work() -> None:
            buffer = memoryview(bytearray(PIECE))
            while True:
                with lock:
                    matrix: Matrix | None = next(matrices, None)
                if matrix is None:
                    return
                size = matrix.rows * matrix.cols // 4
                for at in range(0, size, PIECE):
                    file.source.readinto(matrix.start + at, buffer[: min(PIECE, size - at)])

        helpers = [threading.Thread(target=work) for _ in range(threads - 1)]
        start = perf_counter()
        for helper in helpers:
            helper.start()
        work()
        for helper in helpers:
            helper.join()
        return perf_counter() - start


def ask(path: Path, threads: int = 1) -> object:
    """The evidence of a file, all layers."""
    with File(FileSource(path)) as file:
        return layout_evidence(file, CANONICAL.code_map, threads=threads)


def layout(setting: Setting) -> Result:
    """All layers of a file of full size, with one thread and with two."""
    path = _file(setting)
    contenders = []
    for threads in (1, 2):
        contenders += [
            Contender(f"probe, {threads}", lambda threads=threads: probe(path, threads), 3),
            Contender(f"evidence, {threads}", timed(lambda threads=threads: ask(path, threads)), 3),
        ]
    times = interleaved(contenders, 1 if setting.quick else setting.rounds, setting.say)
    claims = [
        Claim(f"time of the evidence over that of the probe, threads: {threads}",
              ratios(times[f"evidence, {threads}"], times[f"probe, {threads}"]), "x", most=None if setting.quick else 2.0)
        for threads in (1, 2)
    ]  # fmt: skip
    with File(FileSource(path)) as file:
        size = sum(matrix.rows * matrix.cols // 4 for matrix in roles(file).matrices.values())
    return Result(f"{size:,} bytes of payloads in the page cache", rows(times), tuple(claims))


def memory(setting: Setting) -> Result:
    """Peak memory of the evidence in a fresh process, above its imports."""
    path = _file(setting)
    grown = tuple(float(processes.child("evidence", path).grown) for _ in range(setting.rounds))
    most = None if setting.quick else float(200 << 20)
    claim = Claim("evidence of the large file", grown, "B", most=most)
    return Result("peak memory above the imports", (Row("evidence", grown, "B"),), (claim,))
