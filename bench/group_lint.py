"""This module measures the linter on payloads with a scale for each group against reading them, like `lint` for I2_S."""

from __future__ import annotations

from bench.lint import probe
from bench.measure import Claim, Contender, Result, interleaved, ratios, rows, timed
from bench.parts import Benchmark, Setting
from i2s_spec.linter.engine import lint
from i2s_spec.testing.sample import Draft, block_bytes, tensor_info


def benchmarks() -> list[Benchmark]:
    """The benchmarks."""
    return [Benchmark("ptq1", ptq1)]


def ptq1(setting: Setting) -> Result:
    """A file of type 143, as `payload` makes it: a common type of large ternary models, with a scale for every 28
    bytes."""
    matrix_rows = 1 << (
        10 if setting.quick else 20
    )  # 1.2 GB: larger than all caches, and small enough for the page cache
    path, one = setting.folder / "ptq1.gguf", (5120, matrix_rows // 16)
    block = block_bytes(b"block", (one[0], 256), "PTQ1_0")
    with path.open("wb") as file:
        infos = [tensor_info(f"blk.{i}.weight".encode(), one, 143, i * one[0] * one[1] // 128 * 28) for i in range(16)]
        draft = Draft()
        records = draft.records()
        records.tensor_infos, records.data = infos, b""
        file.write(draft.built(records))
        for _ in range(matrix_rows // 256):
            file.write(block)
    contenders = []
    for threads in (1, 2):
        contenders += [
            Contender(f"probe, {threads}", lambda threads=threads: probe(path, threads), 3),
            Contender(
                f"lint, {threads}", timed(lambda threads=threads: lint(path, payload="full", threads=threads)), 3
            ),
        ]
    times = interleaved(contenders, 1 if setting.quick else setting.rounds, setting.say)
    claims = [
        Claim(f"time of lint over that of the probe, threads: {threads}",
              ratios(times[f"lint, {threads}"], times[f"probe, {threads}"]), "x", most=None if setting.quick else 1.3)
        for threads in (1, 2)
    ]  # fmt: skip
    return Result(f"a file of type 143, {path.stat().st_size:,} bytes in the page cache", rows(times), tuple(claims))
