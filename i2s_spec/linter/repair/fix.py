"""This module defines `fix`: it writes a repaired copy of a file, and reports what was done, with the proof.

>>> from i2s_spec.testing.sample import Draft
>>> broken = Draft().number("key_values[4].value", 2)
>>> fixed = fix(broken)
>>> [(action.code, action.does) for action in fixed.actions]
[('G215', "a boolean becomes 1 in key 'sample.flag'")]
>>> fixed.weights.unchanged
True
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from i2s_spec.draw.text import fault_words
from i2s_spec.errors import FormatError
from i2s_spec.gguf.atomic_file import Target, refuse_source, refuse_taken
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.regular_file import require_written
from i2s_spec.gguf.source import Origin, Source, source_of
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.engine import lint
from i2s_spec.linter.repair.byte_changes import ByteChange, byte_changes
from i2s_spec.linter.repair.recode import recodings, write_recoded
from i2s_spec.linter.repair.registry import REPAIRS, Action, Declined
from i2s_spec.linter.repair.repair_plan import RepairPlan, chosen, plan
from i2s_spec.linter.repair.tensor_bytes import TensorBytes
from i2s_spec.linter.repair.workspace import ExtraRepairs
from i2s_spec.linter.report_data import Report
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse

if TYPE_CHECKING:
    from i2s_spec.gguf.writer import Progress


class WeightIdentity(NamedTuple):
    """The identity of the weights before and after, as `i2s hash` gives it; if there is none, None and the reason.

    `changed_by` holds the codes of the repairs that change names, shapes, types or contents of tensors, or remove
    tensors. `touched` says whether a byte was changed that a tensor may hold, by the spans of all tensors.
    """

    before: str | None
    after: str | None
    why: str = ""
    changed_by: tuple[str, ...] = ()
    touched: bool = False

    @property
    def unchanged(self) -> bool:
        return self.before is not None and self.before == self.after


class Fixed(NamedTuple):
    """The result of a repair.

    `changes` are the first of `changed` places in which bytes differ; `recoded` tensors were also converted to the
    canonical dialect. `withheld` findings could be repaired, too, with unsafe repairs. `remaining` is what a lint of
    the result finds, weights included. `written` is False for a dry run, and if even the repaired header could not be
    read to its end.
    """

    path: str
    actions: tuple[Action, ...]
    declined: tuple[Declined, ...]
    withheld: tuple[Action, ...]
    changes: tuple[ByteChange, ...]
    changed: int
    recoded: tuple[str, ...]
    weights: WeightIdentity
    size_before: int
    size: int
    remaining: Report
    written: bool


def fix(
    origin: Origin,
    target: Target | None = None,
    *,
    unsafe: bool = False,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    dialect: str | Dialect | None = None,
    scrub_tail: bool = False,
    force: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Fixed:
    """Repair what the linter finds, and write the result to a new file.

    Repairing the result again changes nothing, and none of the findings that were repaired is left in it. A file
    without anything to repair is copied. If a rule has more than 10,000 findings, none of them is repaired.

    :param origin: a path, a buffer, a seekable stream or a `Source`
    :param target: a path, or a binary stream; without it nothing is written
    :param unsafe: also make repairs that need a review
    :param select: codes, or beginnings of codes, of the findings to repair; without any, all
    :param ignore: codes, or beginnings of codes, of findings to leave alone
    :param dialect: dialect of the I2_S tensors; they are converted to the canonical dialect (needs `unsafe`)
    :param scrub_tail: overwrite stale bytes after the scales with zeros
    :param force: replace an existing file, but never the one that is read
    :param threads: how many threads decode tensors
    :param progress: called now and then with (bytes done, bytes to do), for each of several stages
    :raises FormatError: where the input cannot be read or is not a GGUF file
    :raises ValueError: for unknown codes or dialects, a dialect without `unsafe`, and a target that is the origin
    :raises FileExistsError, OSError: as `OutputFile` does; then the target is as it was
    """
    source = source_of(origin)
    path = os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
    try:
        if target is not None:
            _refuse_in_place(target, source)
            if isinstance(target, str | os.PathLike):
                refuse_taken(target, force)
        wanted = None if dialect is None else parse(dialect)
        if wanted is not None and wanted != CANONICAL and not unsafe:
            raise ValueError("recoding from a dialect needs unsafe=True: the file does not state its dialect")
        repairs = chosen(select, ignore)
        original = _file(source)
        if original.fault is not None and original.fault.code in faults.NO_INPUT:
            raise original.fault
        made = plan(source, repairs, unsafe, path, ExtraRepairs(scrub_tail, wanted))
        return _finished(original, made, wanted or CANONICAL, target, path, force, threads, progress)
    finally:
        if path is not None:
            source.close()


def _file(source: Source) -> File:
    """The file, with the data section where rules and repairs assume it; that is not always where the header says."""
    file = File(source)
    Subject(file)
    return file


def _refuse_in_place(target: Target, source: Source) -> None:
    try:
        refuse_source(target, source)
    except FileExistsError:
        raise ValueError("OUT is the file that is read; give the repaired file another name") from None


def _finished(
    original: File,
    made: RepairPlan,
    dialect: Dialect,
    target: Target | None,
    path: str | None,
    force: bool,
    threads: int,
    progress: Progress | None,
) -> Fixed:
    """Prove a plan, write it, and lint the result."""
    from i2s_spec.convert.container.edits import write_edited

    file = _file(made.source)
    recoded = {} if file.fault is not None else recodings(file, dialect, threads)
    weights = WeightIdentity(None, None, "nothing was repaired")
    if made.actions or recoded:
        codes = tuple(dict.fromkeys(action.code for action in made.actions if REPAIRS[action.code].weights))
        held = TensorBytes(original)
        touched = bool(recoded) or any(held.why_not(*change.old[:2]) for change in made.source.changes())
        weights = _weights(original, file, dialect, threads, progress)._replace(changed_by=codes, touched=touched)
    if weights.before != weights.after and not weights.why and not weights.changed_by:
        raise RuntimeError("repairs that must not change weights would have changed them; nothing was written")
    size, written = made.source.size, False
    if target is not None and file.fault is None:
        if recoded:
            size = write_recoded(file, recoded, target, force, progress)
        else:
            size = write_edited(made.source, target, force, progress)
        written = True
    anew = target if recoded and written and isinstance(target, str | os.PathLike) else None
    changes, changed = byte_changes(made.source)
    return Fixed(
        path=path if path is not None else original.name,
        actions=made.actions,
        declined=made.declined,
        withheld=made.withheld,
        changes=changes,
        changed=changed,
        recoded=tuple(recoded),
        weights=weights,
        size_before=original.size,
        size=size,
        remaining=_remaining(made.source if anew is None else anew, original, threads),
        written=written,
    )


def _remaining(made: Origin, original: File, threads: int) -> Report:
    """What the linter finds in the result, weights included; without weights for a file that consists of holes."""
    try:
        require_written(original.source)
    except ValueError:
        return lint(made, payload="none")
    return lint(made, threads=threads)


def _weights(before: File, after: File, dialect: Dialect, threads: int, progress: Progress | None) -> WeightIdentity:
    """The identity of the weights before and after the edits, both read in the dialect that the file is in."""
    from i2s_spec.inspect.compare.identity import weights_digest

    found: list[str | None] = []
    why = ""
    for name, file in (("before", before), ("after", after)):
        try:
            found.append(weights_digest(file, dialect, threads, progress))
        except FormatError as error:
            if error.code in faults.GONE:
                raise
            found.append(None)
            why = why or f"the file {name} the repair has none ({fault_words(error)})"
        except ValueError as error:
            found.append(None)
            why = why or f"the file {name} the repair has none ({error})"
    return WeightIdentity(found[0], found[1], why)
