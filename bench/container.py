"""This module measures the container part: time and memory for reading headers, and the cost of `i2s lint`.

The input is the header of BitNet-b1.58-2B-4T (`headers.bitnet`). All contenders of a comparison read a copy whose 210
ternary tensors have type TQ2_0 and the offsets that follow from it, because GGUFReader refuses type 36. The data section
is a hole in the file; no reader of headers reads it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from time import perf_counter

from bench import headers, peers, processes, readers
from bench.measure import Claim, Contender, Result, Row, beyond, interleaved, ratios, rows, timed
from bench.parts import Benchmark, Setting

OURS, MAPPED, STRINGS = "i2s_spec", "i2s_spec, mapped", "i2s_spec, all strings"
READER, CONTENTS, HUB = "gguf.GGUFReader", "gguf.GGUFReader, all strings", "@huggingface/gguf"

#: Bytes that the full-size file needs, with room to spare.
ROOM_ON_DISK = 3 << 30


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        Benchmark("read", read),
        Benchmark("memory", memory),
        Benchmark("lint", lint),
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
        Contender(OURS, timed(lambda: readers.ours_table(path)), often),
        Contender(MAPPED, timed(lambda: readers.ours_mapped_table(path)), often),
        Contender(STRINGS, timed(lambda: readers.ours_strings(path)), often // 3),
    ]
    digests = {OURS: readers.digest(readers.ours_strings(path))}
    notes = []
    contents: list[float] = []

    missing = peers.gguf_missing()
    if missing:
        notes.append(f"{READER} {missing}")
    else:

        def gguf() -> float:
            start = perf_counter()
            read = readers.gguf_table(path)
            opened = perf_counter()
            strings = readers.gguf_lists(read)
            contents.append(perf_counter() - opened)
            digests[READER] = readers.digest(read._replace(strings=strings))
            return opened - start

        contenders.append(Contender(READER, gguf))
    missing = peers.huggingface_missing(setting.peers)
    if missing:
        notes.append(f"{HUB} {missing}")
        times = interleaved(contenders, setting.rounds, setting.say)
    else:
        with peers.HuggingFace(setting.peers, path) as hub:
            digests[HUB] = hub.parse()["digest"]
            contenders.append(Contender(HUB, hub.seconds))
            times = interleaved(contenders, setting.rounds, setting.say)
            notes.append(f"{HUB} {hub.version} in node {hub.node}, warmed up; it decodes all strings in any case")

    if contents:
        times[CONTENTS] = tuple(a + b for a, b in zip(times[READER], contents, strict=True))
        notes.append(f"{READER} {peers.gguf_version()}; it decodes strings only when asked with contents()")
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
    missing = peers.gguf_missing()
    if missing:
        notes.append(f"{READER} {missing}")
    else:
        setting.say(READER)
        found[READER] = (processes.child("GGUFReader", path).grown,)
    missing = peers.huggingface_missing(setting.peers)
    if missing:
        notes.append(f"{HUB} {missing}")
    else:
        setting.say(HUB)
        with peers.HuggingFace(setting.peers, path) as hub:
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


def lint(setting: Setting) -> Result:
    """`i2s lint --header-only FILE` as a whole process, beyond `i2s --version`, in pairs."""
    files = {"i2s lint, file from i2s new": setting.folder / "new.gguf"}
    notes = []
    arguments = ["new", str(files["i2s lint, file from i2s new"])]
    if setting.quick:
        notes.append("the file is small; without --quick it has the size of BitNet-b1.58-2B-4T")
    elif shutil.disk_usage(setting.folder).free < ROOM_ON_DISK:
        notes.append(f"the file is small: the full size needs {ROOM_ON_DISK >> 30} GiB on disk")
    else:
        arguments += ["--shape", "2b4t"]
        large = files["i2s lint, ten times the data"] = setting.folder / "large.gguf"
        headers.bitnet(taller=10).write(large)
        notes.append("the data section of the file that is ten times as large is one hole, which is worth warnings")
    setting.say("i2s " + " ".join(["new", *arguments[2:]]))
    cache = setting.folder / "bytecode"
    made = processes.command(arguments, cache)
    if made.status:
        return Result("i2s new failed", (), (), (f"status {made.status}",))

    times: dict[str, tuple[float, ...]] = {}
    claims = []
    for name, path in files.items():
        setting.say(name)
        count = 3 if setting.quick else 10 * setting.rounds
        found = processes.pairs(["--version"], ["lint", "--header-only", str(path)], count, cache)
        notes.append(f"{name}: {path.stat().st_size:,} bytes, exit status {found[0][1].status}, {len(found)} pairs")
        for field in ("wall", "processor"):
            base, spent = (tuple(getattr(pair[side], field) for pair in found) for side in (0, 1))
            times.setdefault(f"i2s --version ({field})", base)
            times[f"{name} ({field})"] = spent
            goal = 0.030 if field == "wall" and not setting.quick else None
            claims.append(Claim(f"{name}, beyond i2s --version ({field})", beyond(spent, base), "s", most=goal))
        path.unlink()
    return Result("whole processes, files in the page cache", rows(times), tuple(claims), tuple(notes))


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
