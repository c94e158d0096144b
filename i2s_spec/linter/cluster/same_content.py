"""This module finds files of equal bytes, so that each content is checked once.

Only files of equal size can be equal: the others are never read for this. For files of equal size, the ends are
digested, and all bytes only if the ends are the same. A part of a split model is always checked: its findings depend on
the files beside it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from i2s_spec.linter.cluster.check_entry import is_short
from i2s_spec.linter.cluster.manifest import Entry

_PART: Final = re.compile(r".*-\d{5}-of-\d{5}\.gguf", re.DOTALL)


class _Group:
    """Files of one size, until the digest of the ends of each one is known."""

    def __init__(self) -> None:
        self.waiting = 0
        self.known: list[tuple[Entry, str]] = []


class SameContent:
    """Sorts entries: which to digest, which to check, and which have the content of another entry.

    :param check: called with an entry to check
    :param digest: called with an entry to digest, and whether to digest all its bytes
    :param follow: called with an entry and the first entry of the same content
    :param context: what a report depends on besides the content, such as suppressions by name
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        judge: Callable[[Entry], None],
        digest: Callable[[Entry, bool], None],
        follow: Callable[[Entry, str], None],
        context: Callable[[Entry], str] = lambda entry: "",
    ) -> None:
        self._judge, self._digest, self._follow, self._context = judge, digest, follow, context
        entries = list(entries)
        sizes = Counter(entry.size for entry in entries if entry.is_local and not _is_part(entry))
        known = {entry.size for entry in entries if entry.sha256 is not None}
        self._groups: dict[int, _Group] = {}
        self._first: dict[tuple[str, str], str] = {}
        for entry in entries:
            if entry.sha256 is not None and not _is_part(entry):
                self._met(entry, entry.sha256)
            elif entry.size is None or not _is_comparable(entry) or sizes[entry.size] == 1:
                self._judge(entry)
            elif is_short(entry.size) or entry.size in known:
                self._digest(entry, True)
            else:
                self._groups.setdefault(entry.size, _Group()).waiting += 1
                self._digest(entry, False)

    def _met(self, entry: Entry, sha256: str) -> None:
        """Entries with the same content: the first one is checked, the others get its result."""
        key = sha256, self._context(entry)
        first = self._first.setdefault(key, entry.url)
        named = entry._replace(sha256=sha256)
        if first == entry.url:
            self._judge(named)
        else:
            self._follow(named, first)

    def digested(self, entry: Entry, digest: str | None, whole: bool) -> None:
        """Take a digest; None for a file that could not be read, which is then checked by itself."""
        if digest is None:
            self._judge(entry)
        elif whole:
            self._met(entry, digest)
        if whole or entry.size is None:
            return
        group = self._groups[entry.size]
        group.waiting -= 1
        if digest is not None:
            group.known.append((entry, digest))
        if group.waiting:
            return
        del self._groups[entry.size]
        ends = Counter(each for _, each in group.known)
        for known, each in group.known:
            if ends[each] > 1:
                self._digest(known, True)
            else:
                self._judge(known)


def _is_part(entry: Entry) -> bool:
    return _PART.fullmatch(os.path.basename(entry.url)) is not None


def _is_comparable(entry: Entry) -> bool:
    """Whether this file may be compared by its bytes: a file of this machine whose state could be read."""
    return entry.is_local and not entry.problem and not entry.checkpoint and not _is_part(entry)
