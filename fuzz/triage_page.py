"""This module stores failures: the input among the regressions of its harness, and a page that says what failed.

regressions/lint/indexerror-in-rows.gguf        replayed by every run of pytest
regressions/pages/lint/indexerror-in-rows.md    for people, and for the next triage, which reads the signature
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from triage_run import Failure

from i2s_spec.draw.text import hexdump
from i2s_spec.errors import counted, quote

#: Placeholder on a new page, to be replaced by hand; a test fails while it is there.
UNWRITTEN = "Not written yet: say what was wrong, where, and what holds now."

#: Bytes of an input that a page shows.
SHOWN = 512


@dataclass(frozen=True)
class Find:
    """One kind of failure, minimized.

    :param data: the minimized input
    :param sources: names and sizes of the inputs that fail this way, the minimized one first
    """

    failure: Failure
    data: bytes
    sources: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Regression:
    """An input among the regressions, with its page."""

    input: Path
    page: Path


class Shelf:
    """The regressions of one harness.

    :param folder: `fuzz/regressions`
    :param harness: the file with `one_input`
    """

    def __init__(self, folder: Path, harness: Path) -> None:
        name = harness.stem.removeprefix("fuzz_")
        self._harness = harness
        self._inputs, self._pages = folder / name, folder / "pages" / name

    def with_signature(self, id: str) -> Iterator[Regression]:
        """The stored regressions with a signature."""
        for page in sorted(self._pages.glob("*.md")):
            text = page.read_text("utf-8")
            if f"({id})" in text and (named := re.search(r"^\| input \| `([^`]+)`", text, re.M)):
                input = self._inputs / named[1]
                if input.is_file():
                    yield Regression(input, page)

    def put(self, find: Find, name: str | None = None) -> Regression:
        """Write a failure: the page first, so that every input has one.

        :param name: its name; by default made from the exception and the function
        """
        stem = _free(name or _slug(find.failure), self._taken)
        suffix = ".gguf" if find.data.startswith(b"GGUF") else ""
        entry = Regression(self._inputs / f"{stem}{suffix}", self._pages / f"{stem}.md")
        for path, content in ((entry.page, self._page(find, entry).encode()), (entry.input, find.data)):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._pages / f".{path.name}.part"
            temporary.write_bytes(content)
            os.replace(temporary, path)
        return entry

    def replay(self, entry: Regression) -> str:
        """The command that replays a stored input."""
        return f"pytest {relative(self._harness)} -k {entry.page.stem}"

    def _taken(self, stem: str) -> bool:
        return (
            any((self._inputs / f"{stem}{suffix}").exists() for suffix in ("", ".gguf"))
            or (self._pages / f"{stem}.md").exists()
        )

    def _page(self, find: Find, entry: Regression) -> str:
        failure, data = find.failure, find.data
        first, size = find.sources[0]
        more = f" and {len(find.sources) - 1:,} more" if len(find.sources) > 1 else ""
        places = (f"{file}  {function}  {text}".rstrip() for file, function, text in failure.frames[-12:])
        frames = "".join(f"    {quote(place, limit=300, bare=True)}\n" for place in places)
        dump = "".join(f"    {line}\n" for line in hexdump(data[:SHOWN]).splitlines())
        beyond = f"\n{len(data) - SHOWN:,} more bytes follow.\n" if len(data) > SHOWN else ""
        return f"""# {entry.page.stem}

| | |
|---|---|
| harness | `{self._harness.name}` |
| input | `{entry.input.name}`, {counted(len(data), "byte")}, SHA-256 `{sha256(data).hexdigest()[:16]}` |
| found as | `{_cell(first)}`, {counted(size, "byte")}{more} |
| what failed | `{_cell(failure.kind)}`: `{_cell(failure.message, 240) or "no message"}` |
| signature | `{_cell(failure.signature)}` ({failure.id}) |

## Cause and fix

{UNWRITTEN}

## Replay

    {self.replay(entry)}

## Where

{frames or "    in no frame of ours" + chr(10)}
## Input

{dump or "    (empty)" + chr(10)}{beyond}"""


def _slug(failure: Failure) -> str:
    place = failure.place
    words = f"{failure.kind} in {place[0][1]}" if place else failure.kind
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60]


def _free(stem: str, taken: Callable[[str], bool]) -> str:
    number, name = 1, stem
    while taken(name):
        number += 1
        name = f"{stem}-{number}"
    return name


def _cell(text: str, limit: int = 600) -> str:
    """Text of unknown origin for a table, between backticks."""
    return quote(text, limit=limit, bare=True).replace("`", "'").replace("|", "\\|")


def relative(path: Path) -> str:
    """A path relative to the current folder."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
