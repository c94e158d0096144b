"""Many files: from arguments (files, folders, globs, lists, addresses) to a report on each.

`inputs` expands the arguments, `lint_paths` checks what they stand for, in this process or in several, and `lint_path`
is the check of one file for pools, queues and clusters: from plain data to plain data. Each input gets its report, even
if others fail, in the order of the names.

A folder stands for every `*.gguf` file and every folder of safetensors below it, in the order of their names; links
that lead out of it are not followed, nor those that a glob finds and that lead out of its folder. A glob is
a plain name if a file has exactly that name. The address of a hub's repository stands for its GGUF files, or for its
checkpoint if it has none. `@list` is a file of names, one a line or separated by NUL bytes; `@-` is standard input. A
name that matches nothing is returned, too, with the reason, so that it gets a report.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from glob import glob
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from i2s_spec.errors import Fault, FormatError, MissingExtra, Span, TooManyFiles, TrustedText, quote
from i2s_spec.gguf.source import below, is_address, open_regular
from i2s_spec.linter.engine import lint, open_reference
from i2s_spec.linter.options import Options, defaults
from i2s_spec.linter.report_data import Bug, FileReport, Report
from i2s_spec.linter.rule import finding_of
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.compare.known_weights import ReferenceWeights

SUFFIX = ".gguf"

#: The endings of files that make a folder a checkpoint.
_SAFETENSORS = (".safetensors", ".safetensors.index.json")
_PICKLE: Final = r"(?a:(?:pytorch_model|adapter_model|consolidated)\b.*\.(?:bin|pt|pth))"  # compiled for folders only

#: The longest name in a list, in bytes; Linux opens no longer one.
LONGEST_NAME = 4096


class Input(NamedTuple):
    """A path or an address to check; if it cannot be read, the reason: in words, or as the reader's fault.

    :param checkpoint: whether it is a folder of safetensors, or a repository of a hub with such files
    :param root: the folder below which a search found it
    """

    path: str
    problem: str | FormatError = ""
    checkpoint: bool = False
    root: str = ""


def _found(root: str, path: str, checkpoint: bool = False, linked: bool = False) -> Input:
    """Return what a search below a folder found; a link must not lead out of that folder.

    :param linked: whether a folder on the way to it may be a link
    """
    if linked or (not checkpoint and os.path.islink(path)):
        try:
            below(root, os.path.relpath(path, root))
        except FormatError as error:
            return Input(path, error, root=root)
    return Input(path, checkpoint=checkpoint, root=root)


def inputs(names: Iterable[str]) -> Iterator[Input]:
    """Yield the files that names stand for, in order; files that were found by search are given once."""
    found: set[str] = set()
    for name in names:
        if name.startswith("@") and not os.path.lexists(name):
            yield from _listed(name, found)
        else:
            yield from _meant(name, found)


def is_checkpoint(files: Iterable[str]) -> bool:
    """Whether a folder with these files is a checkpoint, valid or not; one of pickles is told by their usual names."""
    names = set(files)
    configured = not names.isdisjoint(("config.json", "adapter_config.json"))
    return any(name.endswith(_SAFETENSORS) or (configured and re.fullmatch(_PICKLE, name)) for name in names)


def _meant(name: str, found: set[str]) -> Iterator[Input]:
    """Yield the files that one name stands for."""
    if is_address(name):
        yield from _first_time(_on_server(name), found)
    elif os.path.isdir(name):
        yield from _first_time(_below(name), found)
    elif not os.path.lexists(name) and any(char in name for char in "*?["):
        yield from _first_time(_matching(name), found)
    elif name == "-" and not os.path.lexists(name):
        yield Input(name, "a model cannot be read from standard input (-); @- reads names of files from it")
    else:
        found.add(os.path.normpath(name))
        yield Input(name)


def _on_server(address: str) -> Iterator[Input]:
    """Yield the files of a server that an address stands for, or the checkpoint.

    :raises MissingExtra: where the extra [remote] is not installed
    """
    from i2s_spec.remote.open import files_of

    try:
        for each in files_of(address, is_checkpoint):
            yield Input(each.address, checkpoint=each.checkpoint)
    except FormatError as error:
        yield Input(address, error)


def _first_time(candidates: Iterable[Input], found: set[str]) -> Iterator[Input]:
    for candidate in candidates:
        key = candidate.path if is_address(candidate.path) else os.path.normpath(candidate.path)
        if candidate.problem or key not in found:
            found.add(key)
            yield candidate


def _below(folder: str, root: str = "") -> Iterator[Input]:
    """Yield every GGUF file and checkpoint below a folder; links to folders are not followed, because they may form
    cycles.

    :param root: the folder of the search, if it began above this one
    """
    errors: list[OSError] = []
    some = False
    for place, _, files in _walk(folder, errors.append):
        if is_checkpoint(files):
            some = True
            yield _found(root or folder, place, True)
        for name in files:
            if name.lower().endswith(SUFFIX):
                some = True
                yield _found(root or folder, os.path.join(place, name))
    for error in errors:
        yield Input(os.fspath(error.filename or folder), error.strerror or type(error).__name__)
    if not some and not errors:
        yield Input(folder, "it is a folder without any *.gguf file")


def _walk(folder: str, failed: Callable[[OSError], object]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk as `os.walk` does, in the order of the names and to any depth; links to folders are left out."""
    left = [folder]
    while left:
        place = left.pop()
        folders, files = [], []
        try:
            with os.scandir(place or os.curdir) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif not entry.is_dir():
                        files.append(entry.name)
        except OSError as error:
            failed(error)
            continue
        yield place, folders, sorted(files)
        left += [os.path.join(place, name) for name in sorted(folders, reverse=True)]


def _matching(pattern: str) -> Iterator[Input]:
    """Yield the files and folders that match a glob."""
    some = False
    parts = pattern.split(os.sep)
    plain = [*takewhile(lambda part: not any(char in part for char in "*?["), parts)]
    root = os.sep.join(plain) or (os.sep if pattern.startswith(os.sep) else os.curdir)
    deep = "**" in parts or sum(any(char in part for char in "*?[") for part in parts) > 1
    for name in sorted(_deep(pattern) if deep else glob(pattern)):
        if pattern.endswith(os.sep) and not os.path.isdir(name):
            continue
        if os.path.isdir(name):
            if not pattern.endswith("**"):  # its matches include everything below them
                some = True
                found = _found(root, name, linked=True)
                yield from [found] if found.problem else _below(name, root)
        elif not pattern.endswith("**") or name.lower().endswith(SUFFIX):
            some = True
            yield _found(root, name, linked=True)
    if not some:
        yield Input(pattern, "no file matches this pattern")


def _deep(pattern: str) -> list[str]:
    """Return the matches of a glob with several patterns. `**` follows no links to folders, because they may form
    cycles; other patterns follow them, to each folder once, under its first name, preferring one that is not a link."""
    places = [os.sep if pattern.startswith(os.sep) else ""]
    parts = [part for part in pattern.split(os.sep) if part]
    for i, part in enumerate(parts, 1):
        matches: list[str] = []
        met = set[tuple[int, int]]()
        for place in sorted(places, key=os.path.islink):
            if part == "**":
                matches += _recursive(place, i == len(parts), met)
            elif not any(char in part for char in "*?["):
                matches += [found] if os.path.lexists(found := os.path.join(place, part)) else []
            elif _is_new(place, met):
                matches += (os.path.join(place, name) for name in sorted(glob(part, root_dir=place or None)))
        places = matches
    return places


def _recursive(place: str, last: bool, met: set[tuple[int, int]]) -> Iterator[str]:
    """Yield what `**` matches: a folder and the folders below it; as the last pattern, all that is in them as well."""
    for inner, folders, _ in _walk(place, lambda error: None):
        yield inner
        new = _is_new(inner, met)
        folders[:] = [name for name in folders if new and not name.startswith(".")]
        if new and last:
            yield from (os.path.join(inner, name) for name in glob("*", root_dir=inner or None) if name not in folders)


def _is_new(folder: str, met: set[tuple[int, int]]) -> bool:
    """Whether no other name led to a folder before; what is below it would match again."""
    try:
        status = os.stat(folder or os.curdir)
    except OSError:
        return False
    known = len(met)
    met.add((status.st_dev, status.st_ino))
    return len(met) > known


def _listed(name: str, found: set[str]) -> Iterator[Input]:
    """Yield the files that the names in a list stand for."""
    try:
        if name == "@-":
            for line in _names(sys.stdin.buffer):
                yield from _meant(line, found)
        else:
            with open_regular(name[1:]) as stream:
                for line in _names(stream):
                    yield from _meant(line, found)
    except OSError as error:
        yield Input(name, f"the list cannot be read: {error.strerror or type(error).__name__}")


def _names(stream: BinaryIO) -> Iterator[str]:
    """Yield names from a list, as they come."""
    rest, ends = b"", b"\n"
    while chunk := stream.read(1 << 16):
        if b"\0" in chunk:
            ends = b"\0"
        *whole, rest = (rest + chunk).split(ends)
        for name in whole:
            yield from _name(name)
        if len(rest) > LONGEST_NAME:
            raise OSError(None, "a name in it is too long")
    yield from _name(rest)


def _name(name: bytes) -> Iterator[str]:
    if name.strip():
        yield os.fsdecode(name.removesuffix(b"\r"))


# --- one file, from plain data to plain data -------------------------------------------------------------------------
# `lint_path` reads only the file, its arguments and results can be pickled, and it never raises for a file: if i2s-spec
# itself fails, the result says so. It can be used directly in a `map` of a process pool, Ray Data or Dask:
#
#     lint_path("model.gguf", Options(profile="security"))


def lint_path(
    path: str | os.PathLike[str],
    options: Options | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
) -> dict[str, Any]:
    """Check one file, and return a report as plain data, whatever happens.

    :param path: a path, or an address of a server as `i2s_spec.remote.addresses` defines it
    :param weights: the reference of the options, if it is open already
    :returns: the report in the form that `lint --format json` gives for each file (`lint.schema.json`)
    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    """
    options = options or defaults()
    name = os.fspath(path)
    if "\0" in name:
        return unreadable(name, faults.UNREADABLE, reason="a file name cannot contain NUL")
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        try:
            report = lint(name, options, progress=progress, weights=weights).as_dict()
        except (MissingExtra, TooManyFiles):
            raise
        except Exception as error:
            if os.environ.get("I2S_DEBUG"):
                raise
            return failed(name, f"{type(error).__name__}: {quote(str(error), bare=True)}")
    if options.skip_lfs and any(finding["code"] == faults.LFS_POINTER.code for finding in report["findings"]):
        return skipped(report, "a Git LFS pointer: the model itself was not downloaded")
    return report


def failed(path: str, message: str) -> dict[str, Any]:
    """Return the report on a file on which i2s-spec itself failed.

    :param message: what happened, in words that need no escaping
    """
    return Report(path, (), {}, bugs=(Bug("lint", message),)).as_dict()


def unreadable(path: str, fault: Fault, **details: str) -> dict[str, Any]:
    """Return the report on an input that cannot be opened, with our own reason."""
    return refused(
        path, FormatError(fault, Span(0, 0), **{name: TrustedText(words) for name, words in details.items()})
    )


def refused(path: str, error: FormatError) -> dict[str, Any]:
    """Return the report on an input that cannot be opened."""
    return Report(path, (finding_of(error),), {}).as_dict()


def skipped(report: FileReport, reason: str) -> dict[str, Any]:
    """Return the report on a file that was not checked, on request."""
    summary = {**report["summary"], "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    return {**report, "ok": True, "findings": [], "skipped": reason, "summary": summary}


# --- all files that names stand for ----------------------------------------------------------------------------------

#: Path and report of one file after another; a caller that stops early must close the iterator.
Reports = Generator[tuple[str, dict[str, Any]], None, None]

#: A function that reports on a folder of safetensors, which a search below another one found, as plain data; for several
#: processes it must be picklable.
Folders = Callable[[str, Options, str], dict[str, Any]]


def lint_paths(
    names: Iterable[str],
    options: Options | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
    folders: Folders | None = None,
) -> Reports:
    """Check the files that names stand for (see `i2s_spec.linter.paths`), each as `lint_path` does.

    :param jobs: how many processes check files; one file, or one job, is checked in this process
    :param progress: called while payloads are read, if this process reads them
    :param weights: the reference of the options, if it is open already
    :param folders: checks folders of safetensors, such as `lint_folder` of `i2s_spec.checkpoints`
    :returns: path and report of each file, in order, as soon as they are ready; memory does not grow with their number
    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    """
    options = options or defaults()
    files = inputs(names)
    first = list(islice(files, 2))
    if jobs == 1 or len(first) < 2:
        return _here(chain(first, files), options, progress, weights, folders)
    return _by_pool(chain(first, files), options, jobs, folders)


def _here(
    files: Iterable[Input],
    options: Options,
    progress: Callable[[int, int], None] | None,
    weights: ReferenceWeights | None,
    folders: Folders | None,
) -> Reports:
    """Report on one file after another; the reference is opened once for all of them."""
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        for file in files:
            yield file.path, report_on(file, options, progress, weights, folders)


def _by_pool(files: Iterable[Input], options: Options, jobs: int, folders: Folders | None) -> Reports:
    from i2s_spec.linter.process_pool import Died, in_order

    for file, report in in_order(partial(report_on, options=options, folders=folders), files, jobs):
        yield file.path, failed(file.path, str(report)) if isinstance(report, Died) else report


def report_on(
    file: Input,
    options: Options,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
    folders: Folders | None = None,
) -> dict[str, Any]:
    """Return the report on one input, even if nothing can be read from it."""
    if isinstance(file.problem, FormatError):
        return refused(file.path, file.problem)
    if file.problem:
        return unreadable(file.path, faults.UNREADABLE, reason=file.problem)
    if file.checkpoint:
        if folders is None:
            return unreadable(
                file.path, faults.UNREADABLE, reason="it is a folder of safetensors files, not a GGUF file"
            )
        return folders(file.path, options, file.root)
    return lint_path(file.path, options, progress=progress, weights=weights)
