"""This module renders what is declared of runtimes, producers and releases as Markdown tables for the site.

Chapter 7 repeats these tables, and a test holds them equal; `page` is a page of its own with every fact and its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from i2s_spec.schema.producers import CONVERTERS, QUANTISERS
from i2s_spec.schema.releases import RELEASES
from i2s_spec.schema.runtimes import RUNTIMES, Fact, Runtime

#: What becomes of an I2_S tensor, in words.
_I2S: Final = {
    "computes": "computes",
    "rejects": "refuses the file",
    "converts": "must be converted first",
    "lists": "shows the number",
}

_OUTCOMES: Final = {"yes": "goes on", "no": "refuses", "crash": "dies"}

#: Last line of the page; it is never edited.
MARK: Final = "<!-- Written by i2s_spec.docs.runtimes from the declarations: edit those. -->\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    shown[1] = "|---" * len(head) + "|"
    return "\n".join(shown) + "\n"


def runtimes() -> str:
    """The runtimes: what becomes of I2_S, which architectures they know, which layouts they read."""
    rows = []
    for runtime in RUNTIMES:
        if runtime.kind == "front":
            rows.append([f"`{runtime.name}`", runtime.title, f"as `{runtime.of}`", "", ""])
            continue
        layouts = "; ".join(f"{machine}: {layout or 'none'}" for machine, layout in runtime.layouts)
        known = ", ".join(runtime.architectures) if runtime.kind == "engine" else "any"
        rows.append([f"`{runtime.name}`", runtime.title, _I2S[runtime.i2s], known, layouts])
    return table(["runtime", "what it is", "I2_S", "architectures declared here", "layouts read"], rows)


def quantisers() -> str:
    """The programs that pack tensors, and the marks that they leave."""
    version = {True: "yes", False: "no", None: "perhaps"}
    rows = [
        [
            f"`{each.name}`", each.title, " or ".join(each.tails), ", ".join(each.layouts) or "none", each.scale,
            version[each.version],
        ]
        for each in QUANTISERS
    ]  # fmt: skip
    return table(["program", "what it is", "behind the scale", "layouts", "scale", "quantization_version"], rows)


def converters() -> str:
    """The programs that write keys, and the first keys in their order."""
    rows = [
        [f"`{each.name}`", each.title, ", ".join(each.architectures), ", ".join(_short(key) for key in each.keys[2:7])]
        for each in CONVERTERS
    ]
    return table(["program", "what it is", "architectures", "keys after name, in this order"], rows)


def _short(key: str) -> str:
    return key.removeprefix("{a}.")


def releases() -> str:
    """The published files that are known."""
    rows = []
    for release in RELEASES:
        size = f"{release.size:,}" if release.size is not None else f"{release.data or 0:,} of data"
        kinds = ", ".join(f"{count} {name}" for name, count in release.types)
        digest = f"`{release.sha256[:8]}…`" if release.sha256 else ""
        rows.append([f"`{release.name}`", release.architecture, size, digest, f"{release.tensors}: {kinds}"])
    return table(["release", "architecture", "bytes", "sha256", "tensors"], rows)


def page() -> str:
    """A page with everything that is known of each runtime."""
    parts = [
        "# Runtimes and I2_S",
        "",
        "What programs make of I2_S files, as far as somebody has looked. `i2s lint --runtimes FILE` judges a file by",
        "these facts; each has a source. The files of `vectors/` are recorded behaviour of the programs themselves.",
        "",
        runtimes(),
    ]
    for runtime in RUNTIMES:
        parts += [f"## {runtime.title}", "", *_facts(runtime), ""]
    return "\n".join([*parts, MARK])


def _facts(runtime: Runtime) -> Iterator[str]:
    if runtime.period:
        yield f"- versions: {runtime.period} ({runtime.source})"
    if runtime.kind == "front":
        yield f"- reads files through `{runtime.of}`, and says what that says"
    else:
        container = runtime.container
        checks = [
            ("a duplicate key", container.duplicate_key), ("a big-endian file", container.big_endian),
            ("an array of arrays", container.nested_array), ("an alignment of 0", container.alignment_zero),
            ("a tensor type that it does not know", container.unknown_type),
        ]  # fmt: skip
        if container.known:
            said = "; ".join(f"{what}: {_OUTCOMES[outcome]}" for what, outcome in checks)
            yield f"- {said}"
        order = "must follow each other without gaps" if container.in_order else "may lie anywhere"
        yield f"- tensors {order}"
    if runtime.code3:
        yield f"- code 3: {runtime.code3}"
    if runtime.pre:
        yield f"- without `tokenizer.ggml.pre` it {runtime.pre}"
    said_facts: list[Fact] = [fact for _, fact in runtime.facts]
    every = [*said_facts, *([runtime.refusal] if runtime.refusal is not None else [])]
    for fact in dict.fromkeys(every):  # one fact may concern two machines
        yield f"- {fact.text} ({fact.source})".replace("<", "&lt;")
