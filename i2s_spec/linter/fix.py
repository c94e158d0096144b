"""The repair of a file: `fix` writes a repaired copy, and reports what was done, with the proof.

>>> from i2s_spec.testing.sample import Draft
>>> broken = Draft().number("key_values[4].value", 2)
>>> fixed = fix(broken)
>>> [(action.code, action.does) for action in fixed.actions]
[('G215', "a boolean becomes 1 in key 'sample.flag'")]
>>> fixed.weights.unchanged
True

`byte_changes` shows what a repair changes, byte by byte, as data and as text.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.convert.rewrite import EditedSource, write_edited
from i2s_spec.draw.text import fault_words
from i2s_spec.errors import FormatError, Span, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile, Target, refuse_inputs, refuse_taken
from i2s_spec.gguf.data_section import TensorBytes
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FetchingSource, Origin, Source, require_written, source_of
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.key_edits import EditedKey, KeyEdits, asked_actions, changes_of
from i2s_spec.linter.options import defaults
from i2s_spec.linter.repair.plan import REPAIRS, Action, Declined, RepairPlan, chosen, plan, taken_together
from i2s_spec.linter.repair.workspace import ExtraRepairs, Workspace, recodings, write_recoded
from i2s_spec.linter.report_data import Report
from i2s_spec.linter.rule import ERROR
from i2s_spec.linter.rules.files import split_incomplete
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse

if TYPE_CHECKING:
    from i2s_spec.gguf.writer import Progress


# --- changes byte by byte --------------------------------------------------------------------------------------------
# @@ padding: bytes 0x1d9 to 0x1e0 become 0x1d9 to 0x1e0
# - 0x1d9  00 41 42 43 00 00 00
# + 0x1d9  7 bytes of 00

#: How many changes of a file are listed, and how many bytes of each side of a change are shown; the rest are counted.
MOST_CHANGES: Final = 10_000
SHOWN_BYTES: Final = 64
_ROW: Final = 16


class ByteChange(NamedTuple):
    """One place where a repaired file differs: the spans before and after, and the first bytes of both."""

    old: Span
    new: Span
    before: bytes
    after: bytes

    @property
    def path(self) -> str:
        """The field, by its path in the schema; `[+]` for a new record."""
        return self.new.path

    def as_dict(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {
            "path": quote(self.path, bare=True),
            "old": {"start": self.old.start, "stop": self.old.stop, "bytes": self.before.hex(" ")},
            "new": {"start": self.new.start, "stop": self.new.stop, "bytes": self.after.hex(" ")},
            "complete": len(self.before) == _size(self.old) and len(self.after) == _size(self.new),
        }

    def lines(self) -> Iterator[str]:
        """Yield the change as lines of text."""
        yield f"@@ {quote(self.path, bare=True)}: {_verb(self.old, self.new)}"
        yield from _side("-", self.old, self.before)
        yield from _side("+", self.new, self.after)


def byte_changes(source: EditedSource) -> tuple[tuple[ByteChange, ...], int]:
    """Return the changes of an edited file in the order of the bytes, at most `MOST_CHANGES`; and the number of all."""
    remaining = []
    changes = source.changes()
    for old, new, data in islice(changes, MOST_CHANGES):
        before = source.origin.read(old.start, min(_size(old), SHOWN_BYTES))
        remaining.append(ByteChange(old, new, before, bytes(data[:SHOWN_BYTES])))
    return tuple(remaining), len(remaining) + sum(1 for _ in changes)


def _size(span: Span) -> int:
    return span.stop - span.start


def _verb(old: Span, new: Span) -> str:
    if not _size(old):
        return f"{counted(_size(new), 'byte is', 'bytes are')} inserted at 0x{old.start:x}"
    if not _size(new):
        return f"{counted(_size(old), 'byte is', 'bytes are')} removed at 0x{old.start:x}"
    return f"bytes 0x{old.start:x} to 0x{old.stop:x} become 0x{new.start:x} to 0x{new.stop:x}"


def _side(sign: str, span: Span, data: bytes) -> Iterator[str]:
    size = _size(span)
    if size and len(set(data)) == 1 and len(data) in (size, SHOWN_BYTES) and size > 4 and not any(data):
        more = "" if len(data) == size else f", as far as {counted(len(data), 'byte shows', 'bytes show')}"
        yield f"{sign} 0x{span.start:x}  {counted(size, 'byte')} of 00{more}"
        return
    for at in range(0, len(data), _ROW):
        yield f"{sign} 0x{span.start + at:x}  {data[at : at + _ROW].hex(' ')}"
    if size > len(data):
        yield f"{sign} ... {counted(size - len(data), 'more byte')}"


def diff_lines(before: File, after: File, changes: Iterable[ByteChange]) -> Iterator[str]:
    """Yield the changes as a diff: key-values and tensors in words, with `-` as they were and `+` as they become.

    What is in no record, or does not show in its words, is shown byte by byte.
    """
    old_records, new_records = _Records(before), _Records(after)
    last: tuple[list[str], list[str]] = ([], [])
    for change in changes:
        lines = old_records.lines(change.old), new_records.lines(change.new)
        if lines[0] == lines[1]:
            yield from change.lines()
        elif lines != last:  # a record that is changed in several places is shown once
            yield f"@@ {quote(change.path, bare=True)} @@"
            yield from (f"-{line}" for line in lines[0])
            yield from (f"+{line}" for line in lines[1])
        last = lines


class _Records:
    """The records of a file, found by their bytes."""

    def __init__(self, file: File) -> None:
        index = file.index
        self._file, self._keys = file, index.keys
        spans = [index.key(i).span for i in range(index.keys)] + [index.tensor(i).span for i in range(index.tensors)]
        self._starts, self._stops = [span.start for span in spans], [span.stop for span in spans]

    def lines(self, span: Span) -> list[str]:
        """Each record that has some of the bytes, in one line; no line for counts, padding and data."""
        first, last = bisect_right(self._stops, span.start), bisect_left(self._starts, span.stop)
        return [self._line(i) for i in range(first, last)] if _size(span) else []

    def _line(self, i: int) -> str:
        from i2s_spec.inspect.show import key_row, tensor_row
        from i2s_spec.inspect.show_text import value_words

        if i < self._keys:
            row = key_row(self._file, i)
            return f"{quote(self._file.index.key(i).name, bare=True)} ({row['type']}) = {value_words(row)}"
        row = tensor_row(self._file, i - self._keys)
        name = quote(self._file.index.tensor(i - self._keys).name, bare=True)
        return f"{name}: {row['type'] or row['type_number']} {row['ne']} at offset {row['offset']:,}"


# --- the repaired copy -----------------------------------------------------------------------------------------------


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
    the result finds, weights included; of a file in which only keys were edited, the errors of its header. `written` is
    False for a dry run, and if even the repaired header could not be read to its end. `keys` are the edits that were
    asked for; `copied` bytes from the data section on are then those of the original, and `compared` if they were written.
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
    diff: tuple[str, ...] = ()
    keys: tuple[EditedKey, ...] = ()
    copied: int | None = None
    compared: bool = False


#: Files of more bytes are copied while their header is checked.
BESIDE: Final = 64 << 20


class NewErrors(ValueError):
    """An edited file would have errors that the original has not."""


def fix(
    origin: Origin,
    target: Target | None = None,
    *,
    unsafe: bool = False,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    dialect: str | Dialect | None = None,
    scrub_tail: bool = False,
    diff: bool = False,
    edits: KeyEdits | None = None,
    ranges: str | os.PathLike[str] | None = None,
    force: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Fixed:
    """Repair what the linter finds, and write the result to a new file.

    With `edits` keys are changed first, and then only findings are repaired that `unsafe`, `select`, `ignore`, `dialect`
    or `scrub_tail` ask for. Everything behind the keys stays byte for byte, which is proved.

    Repairing the result again changes nothing, and none of the findings that were repaired is left in it. A file
    without anything to repair is copied. If a rule has more than 10,000 findings, none of them is repaired.

    :param origin: a path, a buffer, a seekable stream or a `Source`
    :param target: a path, or a binary stream; without it nothing is written
    :param unsafe: also make repairs that need a review
    :param select: codes, or beginnings of codes, of the findings to repair; without any, all
    :param ignore: codes, or beginnings of codes, of findings to leave alone
    :param dialect: dialect of the I2_S tensors; they are converted to the canonical dialect (needs `unsafe`)
    :param scrub_tail: overwrite stale bytes after the scales with zeros
    :param diff: give the changes as the lines of a diff, too
    :param edits: keys to set, rename and delete
    :param ranges: write only the header to `target`, and to this file as JSON which ranges of the original follow it;
        nothing of the data section is read
    :param force: replace an existing file, but never the one that is read; also edit keys that say what tensors mean, and
        write a file with new errors
    :param threads: how many threads decode tensors
    :param progress: called now and then with (bytes done, bytes to do), for each of several stages
    :raises FormatError: where the input cannot be read or is not a GGUF file
    :raises ValueError: for unknown codes or dialects, a dialect without `unsafe`, a target that is the origin, and edits as
        `key_edits.asked_actions`
    :raises KeyError: likewise
    :raises NewErrors: where edits make errors that the file has not, without `force`
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
        changes: list[EditedKey] = []
        if edits is None:
            made = plan(source, repairs, unsafe, path, ExtraRepairs(scrub_tail, wanted))
        else:
            workspace = Workspace(source, path)
            actions = asked_actions(workspace, edits, force)
            made = RepairPlan(taken_together(workspace, actions), (), (), ())
            changes = changes_of(original, File(made.source), actions, edits)
            if unsafe or select or ignore or scrub_tail or wanted is not None:
                made = plan(made.source, repairs, unsafe, path, ExtraRepairs(scrub_tail, wanted))
        if ranges is not None or (edits is not None and not made.actions and wanted is None):
            fixed = _edited(original, made, changes, target, ranges, path, force, progress)
        else:
            if edits is not None and not force:
                refuse_new_errors(original.source, made.source, path)
            fixed = _finished(original, made, wanted or CANONICAL, target, path, force, threads, progress)
            fixed = fixed._replace(keys=tuple(changes))
        return fixed._replace(diff=tuple(diff_lines(original, _file(made.source), fixed.changes))) if diff else fixed
    finally:
        if path is not None:
            source.close()


def _file(source: Source) -> File:
    """Return the file, with the data section where rules and repairs assume it; that is not always where the header
    says.
    """
    file = File(source)
    LintContext(file)
    return file


def _refuse_in_place(target: Target, source: Source) -> None:
    try:
        refuse_inputs(target, source)
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
    file = _file(made.source)
    recoded = {} if file.fault is not None else recodings(file, dialect, threads)
    weights = WeightIdentity(None, None, "nothing was repaired")
    if made.actions or recoded:
        codes = tuple(dict.fromkeys(action.code for action in made.actions if REPAIRS[action.code].weights))
        start, stated = original.data_start, original.data_section.stated_starts
        held = TensorBytes(original.tensors, set() if start is None else {start, *stated})
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
        remaining=_remaining(made.source if anew is None else anew, original, threads, _place(target, path)),
        written=written,
    )


def _edited(
    original: File,
    made: RepairPlan,
    keys: list[EditedKey],
    target: Target | None,
    ranges: str | os.PathLike[str] | None,
    path: str | None,
    force: bool,
    progress: Progress | None,
) -> Fixed:
    """Prove that nothing from the data section on is changed, lint the new header, and write the file or its header."""
    source, file = made.source, _file(made.source)
    start, before = _after_header(file), _after_header(original)
    changed_data = any(change.old.stop > before for change in source.changes())
    same_infos = _infos(file) == _infos(original)
    if changed_data or not same_infos or file.size - start != original.size - before:
        if ranges is not None:
            raise ValueError("repairs change what lies behind the header; such a file is written whole")
        raise RuntimeError("an edit of keys would have changed tensors; nothing was written")

    def check() -> Report:
        return _errors(source, path) if force else refuse_new_errors(original.source, source, path)

    if ranges is not None:
        assert isinstance(target, str | os.PathLike)
        remaining = check()
        _write_header(original, file, start, before, target, ranges, force)
    elif target is None or source.size < BESIDE:
        remaining = check()
        if target is not None:
            write_edited(source, target, force, progress)
    else:
        with ThreadPoolExecutor(1) as pool:
            checked = pool.submit(copy_context().run, check)
            write_edited(source, target, force, progress, checked.result)
        remaining = checked.result()
    changes, changed = byte_changes(source)
    weights = WeightIdentity(None, None, "it was not computed")
    return Fixed(
        path if path is not None else original.name, made.actions, made.declined, made.withheld, changes, changed, (),
        weights, original.size, source.size, remaining, target is not None, (), tuple(keys), file.size - start,
        isinstance(target, str | os.PathLike) and ranges is None,
    )  # fmt: skip


def _after_header(file: File) -> int:
    """Return where the data section begins; the end of a file without tensors, which has none."""
    start = file.data_start if file.index.tensors else file.size
    assert start is not None
    return min(start, file.size)


def _infos(file: File) -> bytes:
    """Return the tensor infos as they are stored."""
    index = file.index
    start = index.tensor(0).span.start if index.tensors else file.infos_end or 0
    return file.source.read(start, (file.infos_end or 0) - start)


def _write_header(
    original: File,
    file: File,
    start: int,
    before: int,
    target: str | os.PathLike[str],
    ranges: str | os.PathLike[str],
    force: bool,
) -> None:
    """Write the new header, and beside it what is to be copied behind it; both get their names together."""
    source = original.source
    document = {
        "schema_version": 1,
        "origin": quote(str(getattr(source, "address", original.name)), 1 << 16, bare=True),
        "origin_size": original.size,
        "origin_etag": getattr(source, "etag", None),
        "size": file.size,
        "pieces": [
            {"from": "header", "start": 0, "stop": start},
            *([{"from": "origin", "start": before, "stop": original.size}] if before < original.size else []),
        ],
    }
    text = json.dumps(document, indent=2) + "\n"
    with (
        OutputFile(target, force=force, inputs=(source,)) as header,
        OutputFile(ranges, force=force, inputs=(source,)) as listed,
    ):
        header.write(file.source.read(0, start))
        listed.write(text.encode())


def _errors(made: Source, path: str | None) -> Report:
    """Return the errors of a header."""
    errors = [code for code, severity in defaults().levels.items() if severity is ERROR]
    return lint(made, payload="none", place=path, select=errors)


def refuse_new_errors(before: Source, after: Source, path: str | None = None) -> Report:
    """Refuse a header with errors that the original does not have as often; return its report.

    :param path: where both are, or will be
    :raises NewErrors: with the first one that the original has not
    """
    found = _errors(after, path)
    if found.ok:
        return found
    known = Counter(finding.code for finding in _errors(before, path).findings)
    for finding in found.findings:
        # The other parts of a split model on a server are not looked for once its header is edited.
        unseen = finding.rule is split_incomplete and isinstance(before, FetchingSource)
        if finding.severity is not ERROR or known[finding.code] or unseen:
            known[finding.code] -= 1
            continue
        words = f"{finding.code} {finding.rule.slug}: {finding.message}"
        raise NewErrors(f"nothing was written, since this would be new: {words}; --force writes it all the same")
    return found


def _place(target: Target | None, path: str | None) -> str | None:
    """Return where the other parts of a split model are looked for: beside the result, or beside the origin of a dry
    run."""
    if target is None:
        return path
    return os.fspath(target) if isinstance(target, str | os.PathLike) else None


def _remaining(made: Origin, original: File, threads: int, place: str | None) -> Report:
    """Lint the result, weights included; without weights for a file that consists of holes."""
    try:
        require_written(original.source)
    except ValueError:
        return lint(made, payload="none", place=place)
    return lint(made, threads=threads, place=place)


def _weights(before: File, after: File, dialect: Dialect, threads: int, progress: Progress | None) -> WeightIdentity:
    """Return the identity of the weights before and after the edits, both read in the dialect that the file is in."""
    from i2s_spec.compare.hash import weights_digest

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
