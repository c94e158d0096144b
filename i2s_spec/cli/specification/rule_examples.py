"""This module shows a rule at work: what is printed for a file that breaks it, and what becomes of that place.

Before: `i2s lint` of a broken copy. After: the changes that `i2s fix` makes of it; where no repair is declared, the same
place in a sound file, or how the two differ. Nothing of it is kept: commands are run when a page is written, by whom the
caller says, since this room knows no command line.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.cli.replay import replay
from i2s_spec.cli.specification.places import Place, bytes_at, field_of, place_in, place_of, record_of, weights
from i2s_spec.cli.specification.sound import likest
from i2s_spec.errors import FormatError, MissingExtra
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.compare.diff import difference
from i2s_spec.linter.engine import lint
from i2s_spec.linter.repair.fix import fix
from i2s_spec.linter.repair.registry import REPAIRS
from i2s_spec.linter.repair.repair_plan import chosen
from i2s_spec.linter.rule import Fix, Rule
from i2s_spec.testing.malformed.case import CASES, Case
from i2s_spec.testing.malformed.reference import ReferenceCase, compared
from i2s_spec.testing.malformed.situations import SITUATIONS, Situation, Without

#: Lines of a transcript that are shown; what is in the middle of a longer one is counted.
MOST_LINES: Final = 15

#: What a difference may at most say and still be shown instead of the number of keys or tensors.
FEW_LINES: Final = 6

#: Files up to this size are compared by meaning, and field by field.
SMALL: Final = 1 << 20

SOUND: Final = "sound.gguf"

_COUNTS: Final = ("header.key_count", "header.tensor_count")


class Shown(NamedTuple):
    """A rule at work: two texts, and a sentence in front of each; without a text the sentence says why there is none."""

    before_says: str
    before: str
    after_says: str = ""
    after: str = ""


@cache
def shown(rule: Rule) -> Shown:
    """A rule at work.

    :raises MissingExtra: where a command cannot be run without an extra
    """
    situation = SITUATIONS.get(rule.code)
    if isinstance(situation, Without):
        return Shown(f"nothing can be shown that would be the same everywhere: {situation.why}.", "")
    with tempfile.TemporaryDirectory() as folder:
        if situation is not None:
            return _met(rule, situation, Path(folder))
        if any(case.code == rule.code for case in CASES):
            return _broken(rule, Path(folder))
        for pair in compared():
            if pair.code == rule.code:
                return _compared(rule, pair, Path(folder))
    return Shown("no file of this package breaks the rule.", "")


def _met(rule: Rule, situation: Situation, folder: Path) -> Shown:
    """A rule that a command meets."""
    if situation.needs is not None and find_spec(situation.needs[0]) is None:
        raise MissingExtra(*situation.needs[1:])
    for name, make in situation.files.items():
        (folder / name).write_bytes(make())
    says, before = "a command that meets it.", _short(replay(situation.command, folder), situation.most or MOST_LINES)
    if situation.broken is None:
        return Shown(says, before)
    name, path = situation.broken
    return Shown(says, before, *_in_a_sound_file(rule, situation.files[name](), path, name, folder))


def _broken(rule: Rule, folder: Path) -> Shown:
    """A rule with broken copies: of them the first that has no other fault and, if that is declared, is repaired."""
    repair: _Repair | None = None
    for case in _cases(rule):
        name = f"{rule.code}-{case.name}.gguf"
        (folder / name).write_bytes(case.data)
        repair = None if rule.fix is Fix.NONE else _repair_of(rule, folder / name)
        if repair is None or repair.fits:
            break
    others = {finding.code for finding in lint(folder / name).findings} - {rule.code}
    before = replay(f"i2s lint --select {rule.code} {name}" if others else f"i2s lint {name}", folder)
    repaired = "" if repair is None else replay(f"i2s fix {name} --dry-run{repair.options}", folder)
    says = f"a file that breaks this rule{', among others' if others else ' and no other'}."
    if repair is not None and repair.fits:
        unsafe = rule.fix is Fix.UNSAFE
        how = "what a repair makes of it" + ("; it needs judgement, so look at the result." if unsafe else ".")
        return Shown(says, _short(before), how, _short(repaired))
    after_says, after = _in_a_sound_file(rule, case.data, case.path, name, folder)
    if repaired:
        after_says = f"the repair declines here, and says why. Below it {after_says}"
    return Shown(says, _short(before), after_says, _short(repaired + after))


class _Repair(NamedTuple):
    """How a broken file is repaired: the options of `i2s fix`, and whether the repair fits there."""

    options: str
    fits: bool


def _repair_of(rule: Rule, path: Path) -> _Repair:
    """The repair of a rule's finding in a file, with its own option where it does not fit without."""
    chosen()  # which loads the repairs
    declared, unsafe = REPAIRS[rule.code], rule.fix is Fix.UNSAFE
    select = (rule.code,) if declared.by_name else ()
    options = " --unsafe" * unsafe + f" --select {rule.code}" * declared.by_name
    if any(action.code == rule.code for action in fix(path, unsafe=unsafe, select=select).actions):
        return _Repair(options, fits=True)
    name, _, value = declared.option.partition(" ")
    if name:
        given: dict[str, Any] = {name.removeprefix("--").replace("-", "_"): value or True}
        if any(action.code == rule.code for action in fix(path, unsafe=unsafe, select=select, **given).actions):
            return _Repair(f"{options} {declared.option}", fits=True)
    return _Repair(options, fits=False)


def _compared(rule: Rule, pair: ReferenceCase, folder: Path) -> Shown:
    """A rule that only another file of the same model shows to be broken."""
    name = f"{rule.code}-{pair.name}.gguf"
    (folder / name).write_bytes(pair.data)
    (folder / SOUND).write_bytes(pair.reference)
    before = replay(f"i2s lint --reference {SOUND} {name}", folder)
    place = place_in(pair.reference, pair.path, SOUND)
    after = ("the same place in the reference.", _lines(place, pair.data, pair.path, name)) if place else ()
    return Shown("a file that differs from another one of its model.", _short(before), *after)


def _cases(rule: Rule) -> list[Case]:
    """The broken copies of a rule, those without another fault first."""
    return sorted((case for case in CASES if case.code == rule.code), key=lambda case: len(case.also))


def _in_a_sound_file(rule: Rule, data: bytes, path: str, name: str, folder: Path) -> tuple[str, str]:
    """What a sound file has there, and the sentence in front of that."""
    otherwise = "what a sound file has otherwise (`-` only the first, `+` only the second)."
    changes, is_lacking = _difference(rule, data, name, folder)
    if 1 < changes.count("\n") <= 1 + FEW_LINES and (is_lacking or path in _COUNTS):
        return otherwise, _short(changes)
    place = place_of(data, path, rule.code, SOUND)
    if place is None:
        return (otherwise, _short(changes)) if changes else ("a sound file has nothing there.", "")
    if place.same and (len(data) > SMALL or place.data != bytes_at(data, path)):
        arrays = place.is_large and len(data) <= SMALL and not path.startswith("data[")
        inner = field_of(data, path, place, SOUND) if arrays else None
        return "the same place in a sound file.", _lines(inner or place, data, path, name)
    if changes:
        return otherwise, _short(changes)
    beside = field_of(data, record_of(path), place, SOUND) if place.same else None
    if beside is not None:
        return "the same record in a sound file, where another field differs.", _lines(beside, data, path, name)
    return "such a place in a sound file.", _lines(place, data, path, name)


def _difference(rule: Rule, data: bytes, name: str, folder: Path) -> tuple[str, bool]:
    """What `i2s diff` says of a file and the sound one that is most like it, and whether the file only lacks keys.

    The text is empty where they have no tensor in common, and where they cannot be compared.
    """
    if len(data) > SMALL:
        return "", False
    (folder / SOUND).write_bytes(next(likest(data, rule.code)))
    try:
        with open_file(folder / name) as ours, open_file(folder / SOUND) as theirs:
            found = difference(ours, theirs)
    except FormatError:
        return "", False
    if not found.compared or (found.same and not found.container and not found.tails):
        return "", False
    more = any(key.type_before is None for key in found.keys)
    less = found.only_a or any(key.type_after is None for key in found.keys)
    return replay(f"i2s diff {name} {SOUND}", folder), bool(more and not less)


def _lines(place: Place, data: bytes, path: str, name: str) -> str:
    """The lines of a place; of weights also what is in them, there and in the broken file."""
    lines = list(place.lines)
    there, here = weights(place.file, place.path), weights(data, path)
    if there and here and there != here:
        lines += [f"  {there}", f"  {name}: {here}"]
    return "\n".join(lines) + "\n"


def _short(transcript: str, most: int = MOST_LINES) -> str:
    """A transcript with no more lines than a page has room for."""
    lines = transcript.splitlines()
    if len(lines) <= most:
        return transcript
    end = 2 if lines[-1].startswith("[exit ") else 1
    left = len(lines) - most + 1
    return "\n".join([*lines[: most - end - 1], f"… {left:,} more lines", *lines[-end:]]) + "\n"


def as_text(example: Shown) -> str:
    """The example for the terminal."""
    lines = []
    for word, says, text in _parts(example):
        lines += [f"{word + ':':<12}{says}", *(f"    {line}".rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def as_markdown(example: Shown) -> str:
    """The example as it stands on the page of its rule."""
    parts = ["## Before and after", ""]
    for word, says, text in _parts(example):
        parts += [f"**{word}:** {says}", ""]
        if text:
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
            parts += [f"{fence}{{ .text .i2s-ran }}", text.rstrip("\n"), fence, ""]
    return "\n".join(parts)


def _parts(example: Shown) -> Iterator[tuple[str, str, str]]:
    yield "Before", example.before_says, example.before
    if example.after_says:
        yield "After", example.after_says, example.after
