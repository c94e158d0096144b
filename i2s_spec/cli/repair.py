"""`i2s fix` and `i2s sanitize`: a new file without findings, and one with only what is understood.

`fix` repairs what the linter finds, and edits keys, with a proof that the weights are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.options import OUTPUT, call_files, check_target, reading, shown, whole_file, words, writing
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import json_document, json_string
from i2s_spec.errors import FormatError, counted
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.fix import Fixed
    from i2s_spec.linter.key_edits import KeyEdits
    from i2s_spec.linter.repair.plan import Action
    from i2s_spec.linter.sanitize import Sanitized

SCHEMA_VERSION = 1

#: Repairs of one rule that are listed, changes that a dry run shows, and codes that remain; the rest are counted.
SHOWN_REPAIRS = 10
SHOWN_CHANGES = 200
SHOWN_CODES = 5

#: Longest file that is the value of a key: larger than the arrays of every vocabulary.
MOST_VALUE = 64 << 20


@click.command(
    "fix",
    epilog="Example:  i2s new tiny.gguf && i2s fix tiny.gguf --set general.name=Tiny -o named.gguf",
    short_help="Repair what can be repaired, or change keys, into a new file.",
)
@whole_file("The repaired file.", "Write nothing; show which bytes would change.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change as a diff, and the rest on stderr.")
@click.option("--unsafe", is_flag=True, help="Also make repairs that need a review of the result.")
@click.option("--select", multiple=True, metavar="CODE,...", callback=words,
              help="Repair only findings with these codes or beginnings of codes.")  # fmt: skip
@click.option("--ignore", multiple=True, metavar="CODE,...", callback=words, help="Leave these findings alone.")
@click.option("--set", "values", multiple=True, metavar="KEY=VALUE[:TYPE]",
              help="Give a key a value. Its type stays, unless TYPE names another (u32, f32, bool, str, arr[i32]); "
              "arrays are JSON.")  # fmt: skip
@click.option("--set-file", "value_files", multiple=True, metavar="KEY=PATH[:TYPE]",
              help="The same, with the text of a file as the value.")  # fmt: skip
@click.option("--rename", "names", multiple=True, metavar="OLD=NEW", help="Give a key another name.")
@click.option("--delete", "deleted", multiple=True, metavar="KEY", help="Remove a key.")
@click.option("--ranges", metavar="JSON", type=OUTPUT,
              help="With edits of keys: OUT is only the new header, and JSON lists the ranges of FILE that follow it; no "
              "weights are read or fetched.")  # fmt: skip
@click.option("--scrub-tail", is_flag=True, help="Overwrite the unused bytes after scales with zeros.")
@click.option("--dialect", metavar="SOURCE",
              help="How FILE's I2_S tensors are packed; they become canonical. Needs --unsafe.")  # fmt: skip
def fix_command(
    file: str,
    target: str | None,
    dry_run: bool,
    diff: bool,
    as_json: bool,
    quiet: bool,
    threads: int,
    values: tuple[str, ...],
    value_files: tuple[str, ...],
    names: tuple[str, ...],
    deleted: tuple[str, ...],
    **options: Any,
) -> int:
    """Repair what the linter finds in FILE, and write the result to OUT. FILE itself is never changed.

    Safe repairs change no weight, and the proof is printed: the identity of the weights before and after, as `i2s hash`
    gives it. `i2s explain CODE` says whether a finding can be repaired.

    --set, --set-file, --rename and --delete edit keys, and nothing is repaired then unless --select, --ignore or --unsafe
    ask for it. Everything behind the keys is copied byte for byte and compared. Keys that say what tensors mean, and
    results with errors that FILE has not, need --force.

    Repairing OUT again changes nothing. Exit code 1: OUT still has errors; `i2s lint` lists them.
    """
    check_target(target, dry_run=dry_run, diff=diff)
    from i2s_spec.linter.fix import fix

    with reading(file), writing(target), progress_bar("repairing", quiet) as progress:
        edits = _key_edits(values, value_files, names, deleted)
        if options["ranges"] is not None and (edits is None or target is None):
            raise ValueError("--ranges needs an edit of keys and -o OUT, which is the new header")
        fixed = fix(file, target, diff=diff, edits=edits, threads=threads, progress=progress, **options)
    if as_json:
        sys.stdout.writelines(json_document(_fix_document(fixed, target)))
    elif not quiet:
        for line in (
            (f"--- {shown(fixed.path)}", f"+++ {shown(fixed.path)}, repaired", *fixed.diff) if fixed.diff else ()
        ):
            click.echo(line)
        for line in _fix_lines(fixed, target, not diff):
            click.echo(line, err=diff)
    return int(not fixed.remaining.ok)


def _key_edits(
    values: tuple[str, ...], files: tuple[str, ...], names: tuple[str, ...], deleted: tuple[str, ...]
) -> KeyEdits | None:
    """Return the edits that options ask for; None without any.

    :raises ValueError: for what does not parse, and a file that is no text
    :raises OSError: for a file that cannot be read
    """
    if not (values or files or names or deleted):
        return None
    from i2s_spec.gguf.source import read_regular
    from i2s_spec.linter.key_edits import KeyEdits, pair, settings

    found = settings(values)
    for setting in settings(files):
        call_files().read(setting.text)
        try:
            text = read_regular(setting.text, MOST_VALUE).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{shown(setting.text)}: it is not UTF-8 at byte {error.start:,}") from None
        found.append(setting._replace(text=text))
    return KeyEdits(found, [pair(word) for word in names], deleted)


def _fix_document(fixed: Fixed, target: str | None) -> dict[str, Any]:
    """Return what was done, as plain data that JSON can carry."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(fixed.path),
        "output": None if target is None else json_string(target),
        "written": fixed.written,
        "size_before": fixed.size_before,
        "size": fixed.size,
        "weights": {**fixed.weights._asdict(), "unchanged": fixed.weights.unchanged or fixed.copied is not None},
        "keys": [{"key": json_string(each.key), "span": each.at.as_dict(), "does": each.does} for each in fixed.keys],
        "copied": fixed.copied,
        "repaired": (_action(action) for action in fixed.actions),
        "not_repaired": ({"code": d.code, "span": d.at.as_dict(), "why": d.why} for d in fixed.declined),
        "needs_unsafe": (_action(action) for action in fixed.withheld),
        "recoded": [json_string(name) for name in fixed.recoded],
        "changed": fixed.changed,
        "changes": (change.as_dict() for change in fixed.changes),
        **({"diff": list(fixed.diff)} if fixed.diff else {}),
        "remaining": fixed.remaining.as_dict()["summary"],
    }


def _action(action: Action) -> dict[str, Any]:
    return {"code": action.code, "span": action.at.as_dict(), "does": action.does, "safe": action.safe}


def _fix_lines(fixed: Fixed, target: str | None, with_bytes: bool) -> Iterator[str]:
    """Yield what was done, for a person; of a dry run `with_bytes` that would change."""
    path = shown(fixed.path)
    for each in fixed.keys:
        yield f"{path}:0x{each.at.start:x}..0x{each.at.stop:x}: {each.does}"
    yield from _listed(path, ((action.code, action.at, action.does) for action in fixed.actions), "repaired")
    if fixed.recoded:
        yield f"{path}: {counted(len(fixed.recoded), 'tensor')} recoded into the canonical dialect, each window read back"
    yield from _listed(path, ((each.code, each.at, each.why) for each in fixed.declined), "not repaired")
    yield from _listed(path, ((each.code, each.at, each.does) for each in fixed.withheld), "needs --unsafe")
    if target is None and with_bytes:
        for change in fixed.changes[:SHOWN_CHANGES]:
            yield from change.lines()
        if fixed.changed > SHOWN_CHANGES:
            yield f"@@ {counted(fixed.changed - SHOWN_CHANGES, 'more change')}"
    yield from _proof(fixed)
    yield _verdict(fixed, target)


def _listed(path: str, rows: Iterable[tuple[str, Any, str]], what: str) -> Iterator[str]:
    counts: dict[str, int] = {}
    for code, at, sentence in rows:
        counts[code] = counts.get(code, 0) + 1
        if counts[code] <= SHOWN_REPAIRS:
            yield f"{path}:0x{at.start:x}..0x{at.stop:x}: {what}: {code}: {sentence}"
    for code, count in counts.items():
        if count > SHOWN_REPAIRS:
            yield f"{path}: {what}: {code}: {count - SHOWN_REPAIRS:,} more"


def _proof(fixed: Fixed) -> Iterator[str]:
    weights = fixed.weights
    if fixed.copied == 0:
        yield "proof: there are no tensors"
        return
    if fixed.copied is not None:
        what = f"what follows the keys is the same: {counted(fixed.copied, 'byte')}"
        yield f"proof: {what} {'were compared with what was written' if fixed.compared else 'are not touched'}"
        return
    if not fixed.actions and not fixed.recoded:
        return
    if weights.unchanged:
        yield f"proof: the weights are the same, {weights.before}"
    elif weights.why:
        yield f"proof: the identity of the weights cannot be compared: {weights.why}"
        if not weights.touched:
            yield "proof: no byte of a tensor was changed"
    else:
        codes = " ".join(weights.changed_by)
        yield f"proof: the weights are NOT the same, by {codes}: {weights.before} before, {weights.after} now"


def _remaining(fixed: Fixed) -> str:
    """Say what a lint finds in the result: counts, and what the findings are that still have a repair."""
    from i2s_spec.linter.report_data import repair_words, repairs_of

    summary = fixed.remaining.as_dict()["summary"]
    counts = ((summary[f"{kind}s"], kind) for kind in ("error", "warning", "note"))
    left = [counted(count, kind) for count, kind in counts if count]
    if fixed.copied is not None and not left:
        return "its header has no errors"
    if not left:
        return "no findings remain"
    known = sorted({(finding.code, finding.rule.slug) for finding in fixed.remaining.findings})
    repairs = repairs_of(((each.code, each.fix) for each in fixed.remaining.findings), fixed.remaining.elided)
    codes = [", ".join((f"{code} {slug}", *map(repair_words, repairs[code]))) for code, slug in known]
    if len(codes) > SHOWN_CODES:
        codes[SHOWN_CODES:] = [counted(len(codes) - SHOWN_CODES, "more code")]
    one = summary["errors"] + summary["warnings"] + summary["notes"] == 1
    return f"{', '.join(left)} remain{'s' * one} ({'; '.join(codes)})"


def _verdict(fixed: Fixed, target: str | None) -> str:
    done = [counted(len(fixed.keys), "key")] if fixed.keys else []
    done += [counted(len(fixed.actions), "repair")] if fixed.actions or not done else []
    what = f"{', '.join(done)}, {fixed.size_before:,} -> {counted(fixed.size, 'byte')}; {_remaining(fixed)}"
    if fixed.written:
        return f"{shown(target or '')}: {what}"
    if target is not None:
        return f"nothing was written: the header still cannot be read to its end; {what}"
    return f"dry run, nothing was written: {what}"


# --- sanitize --------------------------------------------------------------------------------------------------------
# A file anew from what is understood of it, with a list of what was left out.

#: Lines of one kind that are shown; the rest are counted.
SHOWN = 20


@click.command(
    "sanitize",
    epilog="Example:  i2s new tiny.gguf && i2s sanitize tiny.gguf -o clean.gguf",
    short_help="Write a copy with only the known parts of a file.",
)
@whole_file("The new file.", "Write nothing; list what would be left out.")
@click.option("--keep-unknown", is_flag=True, help="Keep keys that the specification does not know.")
@click.option("--drop-template", is_flag=True, help="Leave every chat template out, which is a program.")
def sanitize_command(
    file: str,
    target: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    threads: int,
    **options: Any,
) -> int:
    """Write OUT with only the known parts of FILE: keys that the specification knows, and tensors.

    It leaves out and lists unknown keys, bytes that belong to no tensor, bytes after the scales of I2_S tensors, control
    characters, and chat templates that `i2s lint` calls an error or cannot read to their end. A proof shows that the
    weights are the same. The same FILE gives the same OUT on every machine.

    Exit code 1: FILE has a part that is ambiguous, such as tensors that share bytes; nothing is written. `i2s fix`
    repairs some of those.
    """
    check_target(target, dry_run=dry_run)
    from i2s_spec.linter.sanitize import sanitize

    try:
        with reading(file), writing(target), progress_bar("sanitising", quiet) as progress:
            done = sanitize(file, target, threads=threads, progress=progress, **options)
    except FormatError as error:
        if error.code in faults.NO_INPUT or error.code == faults.CHANGED.code:
            raise
        click.echo(f"i2s: {shown(file)}: not understood, nothing was written: {error}", err=True)
        return 1
    if as_json:
        sys.stdout.writelines(json_document(_sanitize_document(done, target)))
    elif not quiet:
        for line in _sanitize_lines(done, target):
            click.echo(line)
    return 0


def _sanitize_document(done: Sanitized, target: str | None) -> dict[str, Any]:
    """Return what was left out, as plain data that JSON can carry."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(done.path),
        "output": None if target is None else json_string(target),
        "written": done.written,
        "size_before": done.size_before,
        "size": done.size,
        "keys": done.keys,
        "tensors": done.tensors,
        "renamed": done.renamed,
        "weights": done.weights,
        "left_out": ({"span": each.span.as_dict(), "what": each.what, "bytes": each.size} for each in done.left_out),
    }


def _sanitize_lines(done: Sanitized, target: str | None) -> Iterator[str]:
    """Yield what was left out, for a person."""
    path = shown(done.path)
    counts: dict[str, int] = {}
    for each in done.left_out:
        kind = each.what.partition(" ")[0]
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= SHOWN:
            size = counted(each.size, "byte")
            yield f"{path}:0x{each.span.start:x}..0x{each.span.stop:x}: left out: {each.what} ({size})"
    left = sum(count - SHOWN for count in counts.values() if count > SHOWN)
    if left:
        yield f"{path}: left out: {left:,} more"
    if done.renamed:
        yield (
            f"proof: the weights were {done.weights}; "
            f"{counted(done.renamed, 'tensor has', 'tensors have')} other names now"
        )
    else:
        yield f"proof: the weights are the same, {done.weights}" if done.written else f"weights: {done.weights}"
    what = (
        f"{counted(done.keys, 'key')} and {counted(done.tensors, 'tensor')} kept, "
        f"{done.size_before:,} -> {counted(done.size, 'byte')}"
    )
    yield (f"{shown(target)}: {what}" if target is not None else f"dry run, nothing was written: {what}")
