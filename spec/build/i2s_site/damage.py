"""The page "Damage by architecture": what `i2s lint` finds of what llama.cpp refuses, from `tests/peers/matrix.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from i2s_site.checkout import root
from i2s_site.runtimes import table

_INTRODUCTION: Final = """\
# Damage by architecture

A smallest sound file of each architecture was copied with one change: of the possible changes of each kind, {sample}. Each
copy was judged by {judge}, which loaded it with
check_tensors on and decoded four tokens, and by `i2s lint`. This is the run of {date}, with the table of llama.cpp's
loader at `{commit}`; `python tests/peers matrix` repeats it.

A file counts as **refused** where llama.cpp does not load it, does not compute it, or computes values that are not finite,
and as **found** where `i2s lint` reports an error in it. An **alarm** is an error of lint in a file that llama.cpp computes;
it may be right: llama.cpp reads the bits of some tensors as other values than they are.
"""

_NOT_RUN: Final = """\
# Damage by architecture

`python tests/peers matrix` was not run for this site.
"""

#: Columns of counts in the table, in the order of the file's rows.
_HEAD: Final = ("refused", "found", "", "loaded", "alarms")


def page() -> str:
    """Return the whole page."""
    matrix, sound = _results("matrix"), _results("sound")
    parts = [] if matrix is None else [*_parts(matrix)]
    parts += [] if sound is None else [*_sound(sound)]
    return "\n".join(parts or [_NOT_RUN])


def _results(name: str) -> dict[str, Any] | None:
    """Return the results of a command of `tests/peers`, if there are some."""
    path = root() / "tests" / "peers" / f"{name}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _parts(found: dict[str, Any]) -> Iterator[str]:
    counts: dict[str, list[list[int]]] = found["counts"]
    yield _INTRODUCTION.format(
        judge=found["judge"], sample=found["sample"], date=found["date"], commit=found["table"][:9]
    )
    every = [row for rows in counts.values() for row in rows]
    yield "## By kind of damage\n"
    by_kind = zip(found["kinds"], zip(*counts.values(), strict=True), strict=True) if counts else ()
    rows = [[kind.replace("-", " "), *_cells(each)] for kind, each in by_kind]
    yield table(["what was changed", *_HEAD], [*rows, ["**all**", *_cells(every)]])
    for kind, why in found["warned"].items():
        yield f"Of {kind.replace('-', ' ')}, a warning counts as found: {why}.\n"
    yield "## By architecture\n"
    yield table(["architecture", *_HEAD], [[f"`{name}`", *_cells(each)] for name, each in sorted(counts.items())])
    yield f"## Refused, not found: {len(found['missed'])}\n"
    yield _differing(found["missed"], "llama.cpp says")
    yield f"## Alarms: {len(found['alarms'])}\n"
    yield _differing(found["alarms"], "rules")
    if found["without"]:
        yield "## Architectures without a sound file\n"
        yield table(["architecture", "reason"], [[f"`{name}`", _code(why)] for name, why in found["without"].items()])


def _sound(found: dict[str, Any]) -> Iterator[str]:
    """Files that llama.cpp's converter and quantiser wrote, and computes."""
    yield "## Sound files of real writers\n"
    yield f"Files that llama.cpp's own programs made on {found['date']} (`python tests/peers sound`). A file is **sound**"
    yield "where llama.cpp computes finite values; in these `i2s lint` should report no error.\n"
    yield table(
        ["made by", "files", "sound", "with errors", "with warnings"], [list(map(str, row)) for row in found["kinds"]]
    )
    if found["found"]:
        rows = [[_code(name), " ".join(errors), " ".join(warnings)] for name, errors, warnings in found["found"]]
        yield table(["sound file", "errors", "warnings"], rows)


def _cells(rows: Iterable[Sequence[int]]) -> list[str]:
    """Sum of counts, and the share of refused files that is found."""
    refused, seen, loaded, alarms = (sum(column) for column in zip(*rows, strict=True))
    share = f"{100 * seen / refused:.1f} %" if refused else ""
    return [str(refused), str(seen), share, str(loaded), str(alarms)]


def _differing(rows: list[list[str]], head: str) -> str:
    """Return the files on which the two differ; equal ones of an architecture in one row."""
    if not rows:
        return "None.\n"
    times = Counter(map(tuple, rows))
    lines = [
        [f"`{architecture}`", kind.replace("-", " "), _code(where), _code(reason), str(count) if count > 1 else ""]
        for (architecture, kind, where, reason), count in times.items()
    ]
    return table(["architecture", "what was changed", "where", head, "files"], lines)


def _code(text: str) -> str:
    """Return a text of a program or file as code."""
    return f"`{text.replace('`', chr(39))}`" if text else ""
