"""This module expands arguments (files, folders, globs, lists) to the files to check, one after another.

A folder stands for every `*.gguf` file and every folder of safetensors below it, in the order of their names. A glob is
a plain name if a file has exactly that name. The address of a hub's repository stands for its GGUF files, or for its
checkpoint if it has none. `@list` is a file of names, one a line or separated by NUL bytes; `@-` is standard input. A
name that matches nothing is returned, too, with the reason, so that it gets a report.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from typing import BinaryIO, NamedTuple

from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import is_address

SUFFIX = ".gguf"

#: The endings of files that make a folder a checkpoint.
_SAFETENSORS = (".safetensors", ".safetensors.index.json")

#: The longest name in a list, in bytes; Linux opens no longer one.
LONGEST_NAME = 4096


class Input(NamedTuple):
    """A path or an address to check; if it cannot be read, the reason: in words, or as the reader's fault.

    :param checkpoint: whether it is a folder of safetensors, or a repository of a hub with such files
    """

    path: str
    problem: str | FormatError = ""
    checkpoint: bool = False


def inputs(names: Iterable[str]) -> Iterator[Input]:
    """The files that names stand for, in order; files that were found by search are given once."""
    found: set[str] = set()
    for name in names:
        if name.startswith("@") and not os.path.lexists(name):
            yield from _listed(name, found)
        else:
            yield from _meant(name, found)


def is_checkpoint(files: Iterable[str]) -> bool:
    """Whether a folder with these files is a checkpoint, valid or not."""
    return any(name.endswith(_SAFETENSORS) for name in files)


def _meant(name: str, found: set[str]) -> Iterator[Input]:
    """The files that one name stands for."""
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
    """The files of a server that an address stands for, or the checkpoint.

    :raises MissingExtra: where the extra [remote] is not installed
    """
    from i2s_spec.remote.open_remote import files_of

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


def _below(folder: str) -> Iterator[Input]:
    """Every GGUF file and checkpoint below a folder; links to folders are not followed, because they may form cycles."""
    errors: list[OSError] = []
    some = False
    for place, _, files in _walk(folder, errors.append):
        if is_checkpoint(files):
            some = True
            yield Input(place, checkpoint=True)
        for name in files:
            if name.lower().endswith(SUFFIX):
                some = True
                yield Input(os.path.join(place, name))
    for error in errors:
        yield Input(os.fspath(error.filename or folder), error.strerror or type(error).__name__)
    if not some and not errors:
        yield Input(folder, "it is a folder without any *.gguf file")


def _walk(folder: str, failed: Callable[[OSError], object]) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` in the order of the names, for folders that are nested to any depth; links to folders are left out."""
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
    """The files and folders that match a glob."""
    some = False
    parts = pattern.split(os.sep)
    deep = "**" in parts or sum(any(char in part for char in "*?[") for part in parts) > 1
    for name in sorted(_deep(pattern) if deep else glob(pattern)):
        if pattern.endswith(os.sep) and not os.path.isdir(name):
            continue
        if os.path.isdir(name):
            if not pattern.endswith("**"):  # its matches include everything below them
                some = True
                yield from _below(name)
        elif not pattern.endswith("**") or name.lower().endswith(SUFFIX):
            some = True
            yield Input(name)
    if not some:
        yield Input(pattern, "no file matches this pattern")


def _deep(pattern: str) -> list[str]:
    """The matches of a glob with several patterns. `**` follows no links to folders, because they may form cycles;
    other patterns follow them, to each folder once, under its first name, preferring one that is not a link."""
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
    """What `**` matches: a folder and the folders below it; as the last pattern, all that is in them as well."""
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
    """The files that the names in a list stand for."""
    from i2s_spec.gguf.regular_file import open_regular

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
    """Names from a list, as they come."""
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
