"""Readers of headers: time and memory beside `gguf` and `@huggingface/gguf`, and `lint` of hostile headers.

The input is the header of BitNet-b1.58-2B-4T (`headers.bitnet`). All contenders of a comparison read a copy whose 210
ternary tensors have type TQ2_0 and the offsets that follow from it, because GGUFReader refuses type 36. The data section
is a hole in the file; no reader of headers reads it. Each reader opens a file, decodes every scalar value (text too) and
makes the whole tensor table; then it decodes every string of the two large arrays. What is imported for one reader is
imported inside its function, so that a child process loads only that.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple

from peers.programs import PROGRAM

from bench import headers, processes
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios, rows, timed

OURS, MAPPED, STRINGS = "i2s_spec", "i2s_spec, mapped", "i2s_spec, all strings"
READER, CONTENTS, HUB = "gguf.GGUFReader", "gguf.GGUFReader, all strings", "@huggingface/gguf"

#: The string arrays of a BPE vocabulary.
LISTS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        Benchmark("read", read),
        Benchmark("memory", memory),
        Benchmark("hostile", hostile),
    ]


def _header(setting: Setting, ternary: int) -> headers.Header:
    return headers.bitnet(share=16 if setting.quick else 1, ternary=ternary)


def _about(header: headers.Header) -> str:
    return (
        f"a header of {len(header.data):,} bytes with {header.keys} keys, {header.strings:,} strings in two arrays, "
        f"{header.tensors} tensors"
    )


def read(setting: Setting) -> Result:
    """Speed: open, every scalar value and the whole tensor table; then every string as well."""
    header = _header(setting, headers.TQ2_0)
    path = header.write(setting.folder / "peers.gguf")
    often = 3 if setting.quick else 31
    contenders = [
        Contender(OURS, timed(lambda: ours_table(path)), often),
        Contender(MAPPED, timed(lambda: ours_mapped_table(path)), often),
        Contender(STRINGS, timed(lambda: ours_strings(path)), often // 3),
    ]
    digests = {OURS: digest(ours_strings(path))}
    notes = []
    contents: list[float] = []

    missing = _gguf_missing()
    if missing:
        notes.append(f"{READER} {missing}")
    else:

        def gguf() -> float:
            start = perf_counter()
            read = gguf_table(path)
            opened = perf_counter()
            strings = gguf_lists(read)
            contents.append(perf_counter() - opened)
            digests[READER] = digest(read._replace(strings=strings))
            return opened - start

        contenders.append(Contender(READER, gguf))
    missing = PROGRAM[HUB].missing()
    if missing:
        notes.append(missing)
        times = interleaved(contenders, setting.rounds, setting.say)
    else:
        with HuggingFace(path) as hub:
            digests[HUB] = hub.parse()["digest"]
            contenders.append(Contender(HUB, hub.seconds))
            times = interleaved(contenders, setting.rounds, setting.say)
            notes.append(f"{HUB} {hub.version} in node {hub.node}, warmed up; it decodes all strings in any case")

    if contents:
        times[CONTENTS] = tuple(a + b for a, b in zip(times[READER], contents, strict=True))
        notes.append(f"{READER} {metadata.version('gguf')}; it decodes strings only when asked with contents()")
    notes.append(
        "the same was read by all" if len({str(d) for d in digests.values()}) == 1 else f"NOT THE SAME: {digests}"
    )
    return Result(_about(header), rows(times), tuple(_ratios(times, with_goals=not setting.quick)), tuple(notes))


def _ratios(times: dict[str, tuple[float, ...]], with_goals: bool) -> list[Claim]:
    compared = [
        (OURS, READER, 3000),
        (OURS, HUB, 300),
        (STRINGS, READER, 120),
        (STRINGS, CONTENTS, None),
        (STRINGS, HUB, None),
    ]
    return [
        Claim(
            f"{ours} is faster than {theirs}",
            ratios(times[theirs], times[ours]),
            "x",
            least=goal if with_goals else None,
        )
        for ours, theirs, goal in compared
        if theirs in times
    ]


def memory(setting: Setting) -> Result:
    """Peak memory of reading, in fresh processes, above what each had when its imports were done."""
    header = _header(setting, headers.TQ2_0)
    path = header.write(setting.folder / "peers.gguf")
    jobs = {OURS: "i2s_spec", STRINGS: "i2s_spec, all strings"}
    notes = ["what is measured is `read`; resident memory, pages of mapped files included"]
    found: dict[str, tuple[float, ...]] = {}
    for name, job in jobs.items():
        setting.say(name)
        found[name] = tuple(processes.child(job, path).grown for _ in range(setting.rounds))
    missing = _gguf_missing()
    if missing:
        notes.append(f"{READER} {missing}")
    else:
        setting.say(READER)
        found[READER] = (processes.child("GGUFReader", path).grown,)
    missing = PROGRAM[HUB].missing()
    if missing:
        notes.append(missing)
    else:
        setting.say(HUB)
        with HuggingFace(path) as hub:
            found[HUB] = (hub.parse()["grown"],)
    size = len(header.data)
    goals = {OURS: None if setting.quick else 2.0}
    claims = tuple(
        Claim(
            f"{name}, over the size of the header", tuple(value / size for value in values), "x", most=goals.get(name)
        )
        for name, values in found.items()
    )
    return Result(_about(header), tuple(Row(name, values, "B") for name, values in found.items()), claims, tuple(notes))


def hostile(setting: Setting) -> Result:
    """`lint` on very many keys and very many tensors: n and 2n, each in a fresh process."""
    n_keys, n_tensors = (5_000, 5_000) if setting.quick else (100_000, 50_000)
    shapes: dict[str, tuple[Path, Path]] = {}
    for name, make, n in (("keys", headers.many_keys, n_keys), ("tensors", headers.many_tensors, n_tensors)):
        shapes[name] = (
            make(n).write(setting.folder / f"{name}.gguf"),
            make(2 * n).write(setting.folder / f"{name}-twice.gguf"),
        )
    found: list[Row] = []
    claims: list[Claim] = []
    for (name, paths), n in zip(shapes.items(), (n_keys, n_tensors), strict=True):
        costs: list[tuple[processes.Cost, processes.Cost]] = []
        for number in range(setting.rounds):
            setting.say(f"{2 * n:,} {name}: round {number + 1} of {setting.rounds}")
            costs.append((processes.child("lint", paths[0]), processes.child("lint", paths[1])))
        for field, unit, ceiling in (("seconds", "s", 2.0), ("grown", "B", float(64 << 20))):
            once, twice = (tuple(float(getattr(pair[side], field)) for pair in costs) for side in (0, 1))
            what = "time" if unit == "s" else "memory"
            found += [Row(f"{n:,} {name}, {what}", once, unit), Row(f"{2 * n:,} {name}, {what}", twice, unit)]
            most = None if setting.quick else ceiling
            claims.append(Claim(f"{2 * n:,} {name}, {what}", twice, unit, most=most))
            most = None if setting.quick else 2.5
            claims.append(Claim(f"{what} of twice as many {name}", ratios(twice, once), "x", most=most))
    return Result("lint() of hostile headers, above its imports", tuple(found), tuple(claims))


def _gguf_missing() -> str | None:
    """How to install the Python package `gguf`, if it is missing."""
    return None if find_spec("gguf") else "not installed: pip install -e '.[gguf]'"


class Read(NamedTuple):
    """The result of a reader: scalar values by key, the tensor table, the string arrays if requested.

    `file` keeps the open file alive, so that closing it is not timed.
    """

    scalars: dict[str, Any]
    table: list[tuple[str, tuple[int, ...], int, int]]
    strings: tuple[Sequence[str], ...]
    file: object


def ours_table(path: Path) -> Read:
    """i2s_spec as it reads any file, by bounded reads."""
    from i2s_spec.gguf import reader

    return _ours(reader.open(path))


def ours_mapped_table(path: Path) -> Read:
    """i2s_spec with the file mapped into memory."""
    from i2s_spec.gguf import reader

    return _ours(reader.open(path, trusted=True))


def ours_strings(path: Path) -> Read:
    """i2s_spec, with all strings."""
    read = ours_table(path)
    metadata = read.file.metadata  # type: ignore[attr-defined]
    return read._replace(strings=tuple(metadata[key] for key in LISTS))


def _ours(file: Any) -> Read:
    metadata = file.metadata
    scalars = {entry.key: metadata.decode(entry) for entry in metadata.rows if entry.type != 9}
    table = [(tensor.name, tensor.shape, tensor.number, tensor.offset) for tensor in file.tensors.rows]
    return Read(scalars, table, (), file)


def gguf_table(path: Path) -> Read:
    """The reference reader of llama.cpp, PyPI `gguf`."""
    from gguf import GGUFReader, GGUFValueType

    file = GGUFReader(path)
    fields = [field for field in file.fields.values() if not field.name.startswith("GGUF.")]
    scalars = {field.name: field.contents() for field in fields if field.types[0] != GGUFValueType.ARRAY}
    base = file.data_offset
    table = [
        (tensor.name, tuple(map(int, reversed(tensor.shape))), int(tensor.tensor_type), int(tensor.data_offset - base))
        for tensor in file.tensors
    ]
    return Read(scalars, table, (), file)


def gguf_strings(path: Path) -> Read:
    """The same, with `contents()` of the two arrays, which makes `str` of their strings."""
    read = gguf_table(path)
    return read._replace(strings=gguf_lists(read))


def gguf_lists(read: Read) -> tuple[Sequence[str], ...]:
    """The string arrays of a file that `gguf_table` opened."""
    return tuple(read.file.fields[key].contents() for key in LISTS)  # type: ignore[attr-defined]


def digest(read: Read) -> dict[str, Any]:
    """A short summary of the result for comparison: counts and checksums."""
    lines = "".join(f"{name} {','.join(map(str, shape))} {kind} {at}\n" for name, shape, kind, at in read.table)
    text = "\n".join("\n".join(strings) for strings in read.strings)
    return {
        "scalars": len(read.scalars),
        "table": hashlib.sha256(lines.encode()).hexdigest(),
        "strings": hashlib.sha256(text.encode()).hexdigest() if read.strings else None,
    }


class HuggingFace:
    """@huggingface/gguf in a persistent node process, so that its compiler has warmed up before the measurement."""

    def __init__(self, path: Path) -> None:
        script, folder = Path(__file__).with_name("huggingface.mjs"), PROGRAM[HUB].folder
        arguments = ["node", str(script), str(folder.resolve()), str(path)]
        self._node = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        versions = self._answer()
        self.version = versions["version"]
        self.node = versions["node"]

    def parse(self) -> dict[str, Any]:
        """Parse the file once: `seconds`, `grown` bytes of peak memory, `digest` of the result."""
        assert self._node.stdin is not None
        self._node.stdin.write("parse\n")
        self._node.stdin.flush()
        return self._answer()

    def seconds(self) -> float:
        """Parse the file once; returns the seconds."""
        return float(self.parse()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        if not line:
            raise RuntimeError(f"node ended with status {self._node.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> HuggingFace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.close()
        self._node.stdout.close()
        self._node.wait()
