"""This module defines `sanitize`: it writes a file anew from the parts that were understood and leaves out everything else.

It keeps what the specification declares: known keys with known types, and tensors. It leaves out unknown keys, bytes
that no tensor owns (padding, gaps, bytes after the last tensor), bytes 4 to 31 of I2_S tails, control characters in
texts, and on request the chat template. The result has the standard layout of our writer, so the same file gives the
same bytes everywhere. The weights stay the same; their identity proves it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from i2s_spec.convert.container.rewrite import rewrite
from i2s_spec.gguf.atomic_file import Target, refuse_source, refuse_taken
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.regular_file import require_written
from i2s_spec.gguf.source import Origin, source_of
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rules import all_rules
from i2s_spec.linter.rules.architecture.model_keys import foreign_prefix
from i2s_spec.linter.sanitize.removals import Removed, keys_of, names, refused, tails, unowned

if TYPE_CHECKING:
    from i2s_spec.gguf.writer import Progress


class Sanitized(NamedTuple):
    """The result: what was left out, how many keys and tensors are kept, and the identity of the weights.

    `renamed` tensors got a new name; only this changes the identity.
    """

    path: str
    left_out: tuple[Removed, ...]
    keys: int
    tensors: int
    renamed: int
    weights: str
    size_before: int
    size: int
    written: bool


def sanitize(
    origin: Origin,
    target: Target | None = None,
    *,
    keep_unknown: bool = False,
    drop_template: bool = False,
    force: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Sanitized:
    """Write a copy with only the known parts of a file.

    :param origin: a path, a buffer, a seekable stream or a `Source`
    :param target: a path, or a binary stream; without it nothing is written
    :param keep_unknown: keep keys that the specification does not know, if they have printable names
    :param drop_template: remove the chat template, which is a program
    :param force: replace an existing file, but never the one that is read
    :param threads: how many threads decode tensors for the proof
    :param progress: called now and then with (bytes done, bytes to do), for each of several stages
    :returns: the removed parts, and the proof
    :raises FormatError: if the file cannot be read or understood: the linter's finding
    :raises ValueError: for an architecture whose keys are not known, without `keep_unknown`; for a target that is the
        origin, and for a file that consists of holes
    :raises FileExistsError, OSError: as `OutputFile` does; then the target is as it was
    """
    source = source_of(origin)
    path = os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
    try:
        if target is not None:
            try:
                refuse_source(target, source)
            except FileExistsError:
                raise ValueError("OUT is the file that is read; give the sanitized file another name") from None
            if isinstance(target, str | os.PathLike):
                refuse_taken(target, force)
        file = File(source)
        subject = Subject(file, path)
        _require_understood(subject, keep_unknown)
        require_written(source)
        return _rewritten(subject, target, keep_unknown, drop_template, force, threads, progress)
    finally:
        if path is not None:
            source.close()


def _require_understood(subject: Subject, keep_unknown: bool) -> None:
    """Refuse a file with a part that is not understood.

    If the keys of a model had another architecture's prefix, they would be left out as unknown, and nobody could repair
    that.
    """
    if subject.file.fault is not None:
        raise subject.file.fault
    needed = [rule for rule in all_rules() if rule.ambiguous]
    for rule in needed if keep_unknown else (*needed, foreign_prefix):
        for finding in rule.check(subject) if rule.check is not None else ():
            raise refused(finding)


def _rewritten(
    subject: Subject,
    target: Target | None,
    keep_unknown: bool,
    drop_template: bool,
    force: bool,
    threads: int,
    progress: Progress | None,
) -> Sanitized:
    from i2s_spec.inspect.compare.identity import weights_digest

    file = subject.file
    left_out: list[Removed] = []
    keys = keys_of(subject, keep_unknown, drop_template, left_out)
    new_names = names(file, left_out)
    new_tails = tails(file, left_out)
    left_out += unowned(file)
    weights = weights_digest(file, threads=threads, progress=progress)
    size = rewrite(
        file, _Nowhere.made() if target is None else target, set=keys.changed, drop_keys=keys.dropped, alignment=32,
        rename_tensors=new_names, replace=new_tails, force=force, progress=progress,
    )  # fmt: skip
    if isinstance(target, str | os.PathLike):
        _prove(target, weights if not new_names else None, threads, progress)
    left_out.sort(key=lambda each: each.span)
    return Sanitized(
        path=subject.path if subject.path is not None else file.name,
        left_out=tuple(left_out),
        keys=len(file.metadata) - len(keys.dropped),
        tensors=file.index.tensors,
        renamed=len(new_names),
        weights=weights,
        size_before=file.size,
        size=size,
        written=target is not None,
    )


def _prove(target: str | os.PathLike[str], wanted: str | None, threads: int, progress: Progress | None) -> None:
    """Check that the written file has the same weights and is complete."""
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.inspect.compare.identity import weights_digest

    with open_file(target) as file:
        found = weights_digest(file, threads=threads, progress=progress)
    if wanted is not None and found != wanted:
        os.unlink(target)
        raise RuntimeError("the sanitized file has other weights; it was removed")


class _Nowhere:
    """A stream that discards everything."""

    @staticmethod
    def made() -> BinaryIO:
        return cast(BinaryIO, _Nowhere())

    def write(self, data: Any) -> int:
        return len(data)
