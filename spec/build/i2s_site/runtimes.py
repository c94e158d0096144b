"""Tables in Markdown of what is declared of runtimes, producers, releases and advisories.

Chapters 7 and 12 contain these tables; `page` is a separate page with every fact and its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from i2s_spec.cli.rule_pages import slug
from i2s_spec.linter.runtimes.records import records
from i2s_spec.linter.runtimes.records import table as table_of_records
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS
from i2s_spec.schema.releases import CONVERTERS, QUANTIZERS, RELEASES
from i2s_spec.schema.runtimes import RUNTIMES, Fact, Runtime
from i2s_spec.schema.type_registry import ADVISORIES
from i2s_spec.schema.types import TENSOR_TYPES

#: What becomes of an I2_S tensor, in words.
_I2S: Final = {
    "computes": "computes",
    "rejects": "refuses the file",
    "converts": "must be converted first",
    "lists": "shows the number",
}

#: Sources of facts that can be followed, as `linter.runtimes.records` takes them apart.
_THREAD: Final = re.compile(r"\b([\w.-]+/[\w.-]+)#(\d+)\b")
_DISCUSSION: Final = re.compile(r"\b([\w.-]+/[\w.-]+) discussion (\d+)\b")
_LINE: Final = re.compile(
    r"\b(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{7,40}):(?P<path>[\w./-]*[\w-])(?::(?P<line>\d+))?"
)
_RECORDED: Final = re.compile(r"\brun [@\w./-]*\w")

#: How the names of the smallest files of architectures begin.
_SMALLEST: Final = "smallest."

_MARKS: Final = {"yes": "✓", "no": "✕", "crash": "†"}

_OUTCOMES: Final = {"yes": "accepts it", "no": "refuses it", "crash": "crashes"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    shown[1] = "|---" * len(head) + "|"
    return "\n".join(shown) + "\n"


def dialects() -> str:
    """Return the layouts, code maps and tails, each with its rule: the table of section 5.5."""
    rows = [
        [
            "layout",
            f"`{layout.name}`",
            f"byte `{layout.byte_of}` <br> shift `{layout.shift_of}`",
            layout.known_as + ("" if layout.in_gguf else "; never in GGUF"),
        ]
        for layout in LAYOUTS.values()
    ]
    for code_map in CODE_MAPS.values():
        trits = ", ".join({-1: "−1", 0: "0", 1: "+1", None: "·"}[trit] for trit in code_map.trits)
        rows.append(["code map", f"`{code_map.name}`", f"codes 0 to 3: {trits}", code_map.known_as])
    for tail in TAILS.values():
        times = "once" if tail.copies == 1 else f"{tail.copies} times"
        rows.append(["tail", f"`{tail.name}`", f"the scale {times}", tail.known_as])
    return table(["part", "name", "rule", "known as"], rows)


def runtimes() -> str:
    """Return the runtimes: what becomes of I2_S, which architectures they know, which layouts they read."""
    rows = []
    for runtime in RUNTIMES:
        if runtime.recorded:
            rows.append([f"`{runtime.name}`", runtime.title, "by its runs alone", "", ""])
            continue
        if runtime.kind == "front":
            rows.append([f"`{runtime.name}`", runtime.title, _in_front(runtime), "", ""])
            continue
        layouts = "; ".join(f"{machine}: {layout or 'none'}" for machine, layout in runtime.layouts)
        known = ", ".join(runtime.architectures) if runtime.kind == "engine" else "any"
        rows.append([f"`{runtime.name}`", runtime.title, _I2S[runtime.i2s], known, layouts])
    return table(["runtime", "what it is", "I2_S", "architectures declared here", "layouts read"], rows)


def matrix() -> str:
    """Return a row for each runtime and a column for each thing that a file may need of it; names lead to what is
    known.
    """
    known = sorted({name for each in RUNTIMES for name in each.architectures})
    checks = ["big-endian", "duplicate key", "array of arrays", "unknown type", "gaps between tensors"]
    rows = []
    for runtime in RUNTIMES:
        name = f"[{runtime.title}](#{slug(runtime.title)})"
        if runtime.recorded or runtime.kind == "front":
            why = "see its runs" if runtime.recorded else _in_front(runtime)
            rows.append([name, why, *[""] * (len(known) + len(checks))])
            continue
        engine = runtime.kind == "engine"
        has = [_architecture_mark(runtime, each) for each in known]
        rows.append([name, _I2S[runtime.i2s], *(has if engine else [""] * len(known)), *_container_marks(runtime)])
    return table(["runtime", "I2_S", *known, *checks], rows)


def _in_front(runtime: Runtime) -> str:
    """Describe what a front end does with I2_S."""
    if runtime.types:
        return "refuses the file"
    return f"as `{runtime.of}`" if runtime.of else "not tried"


def _architecture_mark(runtime: Runtime, name: str) -> str:
    """Whether a runtime takes models of an architecture."""
    if name in runtime.architectures:
        embedding = ARCHITECTURES[name].embedding_model
        return "plain" if embedding and runtime.norm_in != "yes" else "✓"
    return "?" if name in runtime.unsure else "✕"


def _container_marks(runtime: Runtime) -> list[str]:
    """Return the result for a file with each of the features that `matrix` lists."""
    container = runtime.container
    if not container.known:
        return ["?"] * 5
    outcomes = [container.big_endian, container.duplicate_key, container.nested_array, container.unknown_type]
    return [*(_MARKS[outcome] for outcome in outcomes), "✕" if container.in_order else "✓"]


def linked(source: str) -> str:
    """Return a source of a fact, with links to threads, to lines of public source and to the runs of this page."""
    source = _THREAD.sub(r"[\g<0>](https://github.com/\1/issues/\2)", source)
    source = _DISCUSSION.sub(r"[\g<0>](https://github.com/\1/discussions/\2)", source)
    source = _LINE.sub(_line_link, source)
    return _RECORDED.sub(r"[\g<0>](#runs)", source)


def _line_link(found: re.Match[str]) -> str:
    line = f"#L{found['line']}" if found["line"] else ""
    return f"[{found[0]}](https://github.com/{found['repository']}/blob/{found['commit']}/{found['path']}{line})"


def advisories() -> str:
    """Return the published weaknesses of readers: where each was, in what part of a file, and the rules that find
    such a part.
    """
    rows = [
        [each.id, each.program, each.subject, ", ".join(f"[{code}](rules/{code}.md)" for code in each.rules)]
        for each in ADVISORIES
    ]
    return table(["advisory", "program", "subject", "found by"], rows)


def quantizers() -> str:
    """Return the programs that pack tensors, and the marks that they leave."""
    version = {True: "yes", False: "no", None: "perhaps"}
    rows = [
        [
            f"`{each.name}`", each.title, " or ".join(each.tails), ", ".join(each.layouts) or "none", each.scale,
            version[each.version],
        ]
        for each in QUANTIZERS
    ]  # fmt: skip
    return table(["program", "what it is", "after the scale", "layouts", "scale", "quantization_version"], rows)


def converters() -> str:
    """Return the programs that write keys, and the first keys in their order."""
    rows = [
        [f"`{each.name}`", each.title, ", ".join(each.architectures), ", ".join(_short(key) for key in each.keys[2:7])]
        for each in CONVERTERS
    ]
    return table(["program", "what it is", "architectures", "keys after name, in this order"], rows)


def _short(key: str) -> str:
    return key.removeprefix("{a}.")


def releases() -> str:
    """Return the published files that are known."""
    rows = []
    for release in RELEASES:
        size = f"{release.size:,}" if release.size is not None else f"{release.data or 0:,} of data"
        kinds = ", ".join(f"{count} {name}" for name, count in release.types)
        digest = f"`{release.sha256[:8]}…`" if release.sha256 else ""
        rows.append(
            [f"`{release.name}`", release.architecture, size, digest, f"{release.tensors}: {kinds}", release.basis]
        )
    return table(["release", "architecture", "bytes", "sha256", "tensors", "how its size is known"], rows)


def page() -> str:
    """Return a page with everything that is known of each runtime."""
    parts = [
        "# Runtimes and I2_S",
        "",
        "This page lists how programs handle ternary files; `i2s lint --runtimes FILE` reports it for one file. Every",
        "fact cites its source: a recorded run (`run PROGRAM/FILE`, below), an issue, a line of source, or the output of",
        "a program built from source (`tests/oracle`). What was neither run nor read is marked `not tried`.",
        "",
        "## At a glance",
        "",
        matrix(),
        "`✓` yes, `plain` only without the norms of embedding models, `✕` no, `†` the program crashes, `?` not known. A",
        "cell is empty if the source was not read, or if the program reads headers only.",
        "",
        *_runs(),
    ]
    for runtime in RUNTIMES:
        parts += [f"## {runtime.title}", "", *_facts(runtime), ""]
    return "\n".join(parts)


#: What a run shows, in words, in the order of the page.
_RESULTS: Final = {
    "right": "computed as our forward pass does", "wrong": "computed something else",
    "ran": "computed, compared with nothing", "": "loaded, or read", "no": "refused, or not computed",
}  # fmt: skip


def _runs() -> Iterator[str]:
    """Yield a table of what each program did with each small file, by the records."""
    yield "## Runs"
    yield ""
    yield "Each program was run on small files that `i2s` makes; `python tests/peers runs` repeats the runs, and those that"
    yield "were made by hand say where the program was got. Files have rows of 256 and 512 elements, `wide` ones of 512 and"
    yield "1,024; the others differ from a wide one in what their name says. `records.json` of the package contains the"
    yield "commands that make each file, its SHA-256 and form, and the output and distance of each run. Without a device in"
    yield "its name, a program was run on a processor."
    yield ""
    every, endings = list(records().values()), table_of_records()["endings"]
    for program in dict.fromkeys(run.program for run in every):
        mine = [run for run in every if run.program == program]
        source = f" ({mine[0].taken})" if mine[0].taken else ""
        yield f"- `{program}` {mine[0].version}, {mine[0].date}{source}"
        for result, words in _RESULTS.items():
            names = [run.file.name for run in mine if run.result == result]
            smallest = [name for name in names if name.startswith(_SMALLEST)]
            shown = ", ".join(f"`{name}`" for name in names if not name.startswith(_SMALLEST))
            more = f"the smallest file of {len(smallest)} architectures" if smallest else ""
            if shown or more:
                yield f"    - {words}: {', '.join(filter(None, (shown, more)))}"
        ended = [f"{each['kind']} {each['count']}" for each in endings if each["program"] == program]
        if ended:
            yield f"    - of its runs, ended by {', '.join(ended)}"
    yield ""
    yield "### Devices"
    yield ""
    rows = table_of_records()["devices"]
    first = rows[0]
    build = f"{first['program']} {first['version']}, {first['device']}, {first['date']}"
    yield f"With CUDA ({build}), all layers offloaded, models of"
    yield f"architectures {', '.join(first['architectures'])}: where matrices of each type are multiplied, and the distance"
    yield "of logits from ours of the same weights in floats (relative L2, 9 tokens)."
    yield ""
    yield table(
        ["type", "products", "distance"],
        [[each["type"], each["products"], f"{each['relative']:.1e}" if each["relative"] else ""] for each in rows],
    )


def _facts(runtime: Runtime) -> Iterator[str]:
    if runtime.period:
        yield f"- versions: {runtime.period} ({linked(runtime.source)})"
    if runtime.kind == "front":
        who = linked(runtime.source)
        if runtime.of:
            yield f"- hands files to `{runtime.of}` ({who}), with which it fails; what it computes was not run"
        if runtime.types:
            names = sorted(
                kind.name for kind in TENSOR_TYPES if kind.family == "ggml" and kind.number not in runtime.types
            )
            yield f"- its own reader comes first, and refuses tensors of other types than those it knows: {', '.join(names)}"
    elif runtime.recorded:
        yield "- its source was not read; all facts come from its runs"
    else:
        container = runtime.container
        checks = [
            ("a duplicate key", container.duplicate_key), ("a big-endian file", container.big_endian),
            ("an array of arrays", container.nested_array), ("an alignment of 0", container.alignment_zero),
            ("a tensor type that it does not know", container.unknown_type),
        ]  # fmt: skip
        if container.known:
            text = "; ".join(f"{what}: {_OUTCOMES[outcome]}" for what, outcome in checks)
            yield f"- {text}"
        order = "must follow each other without gaps" if container.in_order else "may lie anywhere"
        yield f"- tensors {order}"
    if runtime.programs:
        yield f"- runs: {', '.join(f'`{program}`' for program in runtime.programs)}"
    if runtime.unused_code:
        yield f"- code 3: {runtime.unused_code}"
    if runtime.pre:
        yield f"- without `tokenizer.ggml.pre` it {runtime.pre}"
    for limit in runtime.limits:
        size = f"rows below {limit.columns}" if limit.columns else f"tensors above {limit.bytes:,} bytes"
        of = f" of {' and '.join(limit.types)}" if limit.types else ""
        yield f"- {size}{of}: {limit.text} ({linked(limit.source)})"
    stated_facts: list[Fact] = [fact for _, fact in runtime.facts]
    every = [*stated_facts, *([runtime.refusal] if runtime.refusal is not None else [])]
    for fact in dict.fromkeys(every):  # one fact may concern two machines
        yield f"- {fact.text} ({linked(fact.source)})".replace("<", "&lt;")
