"""The examples of the text, and how they are run: Python with its output, and transcripts of the command line.

An example is a fence in a page. `i2s-example` is Python, then a line of three dashes, then what it prints; `i2s-console`
is commands after `$ ` and what they print. Both run in a folder of their own that holds the files of `FILES`, which are
made anew each time and are the same everywhere, and of the files of `MADE` those that it names. Examples are numbered
through the whole text, as CommonMark's are.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_site.checkout import chapters, pages
from i2s_spec.cli.replay import replay, same_output
from i2s_spec.testing.sample import Draft

SCHEMA_VERSION: Final = 1

#: Files that examples find in their folder.
FILES: Final[dict[str, Callable[[], bytes]]] = {
    "sample.gguf": lambda: Draft().data,
    "sample-big-endian.gguf": lambda: Draft("big").data,
}

#: Larger files, which examples find only where they name them, and the command that makes each.
MADE: Final = {
    "mystery.gguf": "i2s new mystery.gguf --trained --dialect interleave-64 -q",
    "ours.gguf": "i2s new ours.gguf --trained --arch llama -q",
    "llama.gguf": "i2s new llama.gguf --trained --arch llama -q",
}

_FENCE: Final = re.compile(
    r"^(?P<mark>`{3,})(?P<kind>i2s-[a-z]+) *$\n(?P<body>.*?)^(?P=mark) *$\n?", re.MULTILINE | re.DOTALL
)
_HEADING: Final = re.compile(r"^#{1,3} (.+?) *$", re.MULTILINE)
_DASHES: Final = "---\n"


class Drift(ValueError):
    """What a page says is not what happens."""


class Fence(NamedTuple):
    """A fence of ours in a page."""

    kind: str
    body: str
    page: Path
    line: int
    section: str


class Example(NamedTuple):
    """An example: its number in the whole text, its kind (`python` or `console`), what runs, and what it prints."""

    number: int
    kind: str
    page: str
    line: int
    section: str
    source: str
    output: str


def fences() -> Iterator[Fence]:
    """Every fence of ours in every page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            before = text[: found.start()]
            headings = _HEADING.findall(before)
            yield Fence(
                found["kind"], found["body"], page, before.count("\n") + 1, headings[-1] if headings else page.stem
            )


@cache
def examples() -> tuple[Example, ...]:
    """Every example, in the order of the text."""
    found: list[Example] = []
    for fence in fences():
        if fence.kind not in ("i2s-example", "i2s-console"):
            continue
        kind = "python" if fence.kind == "i2s-example" else "console"
        source, output = parts(kind, fence.body)
        page = fence.page.relative_to(chapters()).as_posix()
        found.append(Example(len(found) + 1, kind, page, fence.line, fence.section, source, output))
    return tuple(found)


def parts(kind: str, body: str) -> tuple[str, str]:
    """Split the text of a fence into the code that runs and its output; of a transcript the whole is both.

    :raises Drift: for Python without its output
    """
    if kind == "console":
        return "".join(line + "\n" for line in body.splitlines() if line.startswith("$ ")), body
    source, dashes, output = body.partition(_DASHES)
    if not dashes:
        raise Drift("an example has a line of three dashes, and what it prints after that")
    return source, output


def number(kind: str, body: str) -> int | None:
    """Return the number of the example with this text; None where it is in no page (yet)."""
    source, output = parts(kind, body)
    for example in examples():
        if (example.source, example.output) == (source, output):
            return example.number
    return None


def run(kind: str, body: str) -> None:
    """Run an example and compare.

    :raises Drift: with the difference, where it prints something else or fails
    """
    source, output = parts(kind, body)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in FILES.items():
            (Path(folder) / name).write_bytes(make())
        with chdir(folder):
            for name, command in MADE.items():
                if name in source and (failed := _transcript(command)) != f"$ {command}\n":
                    raise Drift(failed)
            printed = _transcript(source) if kind == "console" else _python(source)
    if not same_output(output.rstrip(), printed.rstrip()):
        lines = unified_diff(output.splitlines(), printed.splitlines(), "the page", "what happens", lineterm="")
        raise Drift("\n".join(["an example does not print what the page says", *lines]))


def _python(source: str) -> str:
    printed = io.StringIO()
    space: dict[str, Any] = {"__name__": "example"}
    with redirect_stdout(printed):
        try:
            exec(compile(source, "example", "exec"), space)  # the text is this repository's own
        except Exception as error:
            raise Drift(f"an example fails: {type(error).__name__}: {error}") from error
    return printed.getvalue()


def _transcript(source: str) -> str:
    try:
        return "".join(replay(line.removeprefix("$ "), Path.cwd()) for line in source.splitlines())
    except ValueError as error:
        raise Drift(str(error)) from error


def document() -> dict[str, Any]:
    """Return the examples as data for other languages, with the files that they use in hex, and commands that make
    larger ones.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "files": {name: make().hex() for name, make in FILES.items()},
        "made": dict(MADE),
        "examples": [example._asdict() for example in examples()],
    }
