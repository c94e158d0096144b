"""The linter on whole files: payloads at memory speed, headers alone, memory, many small files, and the layout's evidence.

The probe reads the same parts of the same file by `pread` calls of the same size into one buffer, with as many threads, and
does nothing else. It runs beside every measurement, in the same round. The linter reads every tensor: codes and tails of
I2_S tensors, values and runs of the others. On some processors the survey reads faster, into several buffers in turn; a
second probe does the same. The evidence of the layout is measured against reading the payloads that it uses.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

from bench import processes
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, beyond, interleaved, ratios, rows, timed
from i2s_spec.codec._survey import Buffer
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FileSource
from i2s_spec.inspect.survey import Mode, Reading
from i2s_spec.inspect.survey_reader import BUFFER, SurveyReader, survey
from i2s_spec.layout_inference.counts import PIECE
from i2s_spec.layout_inference.evidence import layout_evidence
from i2s_spec.layout_inference.roles import Matrix, roles
from i2s_spec.linter.engine import lint
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.testing.sample import Draft, block_bytes, tensor_info

#: Bytes that the full-size file needs, with room to spare.
ROOM_ON_DISK = 2 << 30

#: Number of files of `many`.
MANY = 10_000

#: One in this many rows of the feed-forward is zero in the file for evidence, about as in the released 2B-4T.
ZERO_ROWS = 35


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        Benchmark("payload", payload),
        Benchmark("header-only", header_only),
        Benchmark("memory", memory),
        Benchmark("many", many),
        Benchmark("ptq1", ptq1),
        Benchmark("layout", layout),
        Benchmark("layout-memory", layout_memory),
    ]


def full_size(setting: Setting) -> Path:
    """A model of the full size, in the page cache; made in the benchmark's folder unless one is given."""
    given = processes.given_model(setting.quick)
    path = given or setting.folder / "model.gguf"
    if given is None and not path.exists():
        arguments = ["new", str(path)]
        if not setting.quick and shutil.disk_usage(setting.folder).free > ROOM_ON_DISK:
            arguments += ["--shape", "2b4t"]
        setting.say("i2s " + " ".join(["new", *arguments[2:]]))
        made = processes.command(arguments, setting.folder / "bytecode")
        if made.status:
            raise RuntimeError(f"i2s new failed with status {made.status}")
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    return path


def probe(path: Path, threads: int, turns: int = 1) -> float:
    """Seconds for reading the bytes that a survey reads.

    :param turns: buffers of each thread; 0 for as many as the survey has
    """
    with File(FileSource(path)) as file, SurveyReader(file, Reading("full", threads)) as surveying:
        parts = surveying.parts()
        buffers = [Buffer(BUFFER, turns) for _ in range(threads)]
        helpers = [threading.Thread(target=parts.probe, args=(buffer,)) for buffer in buffers[1:]]
        start = perf_counter()
        for helper in helpers:
            helper.start()
        parts.probe(buffers[0])
        for helper in helpers:
            helper.join()
        return perf_counter() - start


def whole(path: Path) -> object:
    """The job of `memory`."""
    return lint(path, payload="full", threads=2)


def _survey(path: Path, threads: int, mode: Mode = "full") -> None:
    with File(FileSource(path)) as file:
        survey(file, Reading(mode, threads))


def payload(setting: Setting) -> Result:
    """`lint` in one process against the probe, and the survey alone, with one thread and with two."""
    path = full_size(setting)
    contenders = []
    for threads in (1, 2):
        contenders += [
            Contender(f"probe, {threads}", lambda threads=threads: probe(path, threads), 3),
            Contender(f"probe as the survey, {threads}", lambda threads=threads: probe(path, threads, 0), 3),
            Contender(f"survey, {threads}", timed(lambda threads=threads: _survey(path, threads)), 3),
            Contender(
                f"lint, {threads}", timed(lambda threads=threads: lint(path, payload="full", threads=threads)), 3
            ),
        ]
    contenders += [
        Contender("lint of a sample", timed(lambda: lint(path, payload="sample")), 3),
        Contender("lint of the header", timed(lambda: lint(path, payload="none")), 3),
    ]
    times = interleaved(contenders, 1 if setting.quick else 3 * setting.rounds, setting.say)
    with File(FileSource(path)) as file:
        found = survey(file)
    assert found is not None
    claims = [
        Claim(f"{what} / probe, threads: {threads}", ratios(times[f"probe, {threads}"], times[f"{what}, {threads}"]), "x",
              least=goal if threads == 2 and not setting.quick else None)
        for threads in (2, 1) for what, goal in (("lint", 0.75), ("survey", 0.85))
    ]  # fmt: skip
    claims += [
        Claim(f"{what} / probe as the survey, threads: 2",
              ratios(times["probe as the survey, 2"], times[f"{what}, 2"]), "x")
        for what in ("lint", "survey")
    ]  # fmt: skip
    speeds = tuple(found.read / seconds / 1e9 for seconds in times["survey, 2"])
    title = f"a file of {path.stat().st_size:,} bytes in the page cache; {found.read:,} of them are looked at"
    return Result(title, rows(times), (*claims, Claim("survey with two threads", speeds, "GB/s")))


def header_only(setting: Setting) -> Result:
    """`i2s lint --header-only FILE` as a whole process, beyond `i2s --version`, in pairs; and the same with payloads."""
    path = full_size(setting)
    cache = setting.folder / "bytecode"
    count = 3 if setting.quick else 10 * setting.rounds
    times: dict[str, tuple[float, ...]] = {}
    claims = []
    for name, options, most in (
        ("i2s lint --header-only", ["--header-only"], 0.040),
        ("i2s lint --threads 2", ["--threads", "2"], None),
    ):
        setting.say(name)
        found = processes.pairs(["--version"], ["lint", *options, str(path)], count, cache)
        base, spent = (tuple(pair[side].wall for pair in found) for side in (0, 1))
        times.setdefault("i2s --version", base)
        times[name] = spent
        goal = None if setting.quick else most
        claims.append(Claim(f"{name}, beyond i2s --version", beyond(spent, base), "s", most=goal))
    return Result("whole processes, the same file", rows(times), tuple(claims))


def memory(setting: Setting) -> Result:
    """Peak memory of `lint` with payloads in a fresh process, above its imports: for the large file and for small ones."""
    large = full_size(setting)
    small = setting.folder / "small.gguf"
    processes.command(["new", str(small)], setting.folder / "bytecode")
    found = []
    for path in (large, small):
        setting.say(f"{path.stat().st_size:,} bytes")
        grown = tuple(float(processes.child("lint, payloads", path).grown) for _ in range(setting.rounds))
        found.append(Row(f"a file of {path.stat().st_size:,} bytes", grown, "B"))
    most = None if setting.quick else float(200 << 20)
    claim = Claim("lint with payloads of the large file", found[0].values, "B", most=most)
    return Result("peak memory above the imports", tuple(found), (claim,))


def many(setting: Setting) -> Result:
    """Many small files with `i2s lint --jobs 2 FOLDER`, as a whole process including its start."""
    count = 100 if setting.quick else MANY
    folder = setting.folder / "many"
    folder.mkdir()
    cache = setting.folder / "bytecode"
    seed = setting.folder / "seed.gguf"
    processes.command(["new", str(seed)], cache)
    data = seed.read_bytes()
    setting.say(f"{count:,} files of {len(data):,} bytes")
    for number in range(count):
        try:
            os.link(seed, folder / f"{number:05}.gguf")
        except OSError:
            (folder / f"{number:05}.gguf").write_bytes(data)
    found: dict[str, tuple[float, ...]] = {}
    rates: dict[str, tuple[float, ...]] = {}
    notes = [f"each file has {len(data):,} bytes"]
    choices: tuple[tuple[str, list[str]], ...] = (("payloads", []), ("headers only", ["--header-only"]))
    for name, options in choices:
        spent = []
        for number in range(1 if setting.quick else setting.rounds):
            setting.say(f"{name}: round {number + 1}")
            arguments = ["lint", "--jobs", "2", "--format", "jsonl", *options, str(folder)]
            spent.append(processes.command(arguments, cache))
        found[name] = tuple(each.wall for each in spent)
        rates[name] = tuple(count / each.wall for each in spent)
        notes.append(f"{name}: exit status {spent[0].status}")
    claims = tuple(
        Claim(f"files in a second, {name}", values, "1/s", least=None if setting.quick else 300)
        for name, values in rates.items()
    )
    shutil.rmtree(folder)
    return Result(f"{count:,} small files, two processes", rows(found), claims, tuple(notes))


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


def _trained(setting: Setting) -> Path:
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


def _payload_probe(path: Path, threads: int) -> float:
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
    path = _trained(setting)
    contenders = []
    for threads in (1, 2):
        contenders += [
            Contender(f"probe, {threads}", lambda threads=threads: _payload_probe(path, threads), 3),
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


def layout_memory(setting: Setting) -> Result:
    """Peak memory of the evidence in a fresh process, above its imports."""
    path = _trained(setting)
    grown = tuple(float(processes.child("evidence", path).grown) for _ in range(setting.rounds))
    most = None if setting.quick else float(200 << 20)
    claim = Claim("evidence of the large file", grown, "B", most=most)
    return Result("peak memory above the imports", (Row("evidence", grown, "B"),), (claim,))
