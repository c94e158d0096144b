"""`import_checkpoint` against reading the same checkpoint and writing a file of the same size.

The checkpoint is the model of the full size, exported in bf16: 332 tensors, 4.8 GB. The probe reads every shard and writes
as many bytes as the GGUF file has, in pieces, without computing anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Final

from bench import processes
from bench.lint import full_size
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios, rows, timed
from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint

#: Bytes of the probe's pieces.
PIECE: Final = 1 << 22
OUT: Final = "out.gguf"


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("bf16", bf16), Benchmark("memory", memory)]


def checkpoint(setting: Setting) -> Path:
    """Write the checkpoint and return its folder."""
    model = full_size(setting)
    setting.say("writing the checkpoint")
    folder = setting.folder / "checkpoint"
    export_checkpoint(model, folder, form="BF16")
    return folder


def probe(folder: Path) -> float:
    """Seconds for reading the shards and writing as many bytes as the import did."""
    buffer, target = bytearray(PIECE), folder.with_name("probe")
    size = folder.with_name(OUT).stat().st_size
    start = perf_counter()
    for shard in sorted(folder.glob("*.safetensors")):
        with open(shard, "rb", buffering=0) as source:
            while source.readinto(buffer):
                pass
    with open(target, "wb", buffering=0) as out:
        for at in range(0, size, PIECE):
            out.write(memoryview(buffer)[: min(PIECE, size - at)])
        os.fsync(out.fileno())
    seconds = perf_counter() - start
    target.unlink()
    return seconds


def whole(folder: Path) -> object:
    """The import on all processors."""
    return import_checkpoint(folder, folder.with_name(OUT), force=True)


def bf16(setting: Setting) -> Result:
    """The import of the full size beside the probe."""
    folder = checkpoint(setting)
    contenders = [  # the probe comes second, because it writes as many bytes as the import did
        Contender("import", timed(lambda: whole(folder))),
        Contender("probe", lambda: probe(folder)),
    ]
    times = interleaved(contenders, setting.rounds, setting.say)
    claim = Claim("share of the probe's speed", ratios(times["probe"], times["import"]), "x",
                  least=None if setting.quick else 0.5)  # fmt: skip
    read, size = sum(each.stat().st_size for each in folder.glob("*.safetensors")), folder.with_name(OUT).stat().st_size
    return Result(f"{read:,} bytes read, {size:,} written", rows(times), (claim,))


def memory(setting: Setting) -> Result:
    """Peak memory of the import in a fresh process, above its imports."""
    folder = checkpoint(setting)
    grown = (float(processes.child("import", folder).grown),)
    claim = Claim("import of the checkpoint", grown, "B", most=None if setting.quick else float(1 << 30))
    return Result("peak memory above the imports", (Row("import", grown, "B"),), (claim,))
