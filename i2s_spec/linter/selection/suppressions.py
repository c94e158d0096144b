"""This module defines suppressions: accepted findings in files with certain names, each with a reason.

A suppression must have a reason. The findings that it covers are counted in every report, and a suppression that
covered nothing in a run is mentioned, so that it can be removed.

    >>> Suppression("models/**/old-*.gguf", ("P1",), "made before the gap was closed").covers("models/a/b/old-1.gguf")
    True
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from i2s_spec.linter.report_data import FileReport


class Suppression(NamedTuple):
    """Codes (prefixes or slugs) that are suppressed in the files that match a pattern, and why.

    A pattern is relative to `base`, the folder of the file that holds the suppression. `*` and `?` stand for parts of
    one name and `**` for any number of folders; a pattern without `/` matches names in every folder.
    """

    files: str
    codes: tuple[str, ...]
    reason: str
    base: str = ""

    def covers(self, path: str) -> bool:
        """Whether the pattern matches a path, which is relative to the current folder."""
        return _pattern(self.files).fullmatch(seen_from(self.base, path)) is not None


def suppressed_in(path: str, suppressions: Iterable[Suppression]) -> dict[str, str]:
    """The prefixes or slugs that are suppressed in one file, each with its reason; later ones override earlier ones."""
    return {
        code: suppression.reason
        for suppression in suppressions
        if suppression.covers(path)
        for code in suppression.codes
    }


def used(suppressions: Iterable[Suppression], path: str, report: FileReport) -> set[Suppression]:
    """The suppressions that covered a finding of a report."""
    reasons = {suppressed["reason"] for suppressed in report["excused"]}
    return {suppression for suppression in suppressions if suppression.reason in reasons and suppression.covers(path)}


def seen_from(folder: str, path: str) -> str:
    """A path relative to a folder (the current one if it has no name), with `/` between its parts.

    An empty path names no file and stays empty.
    """
    return os.path.relpath(path, folder or os.curdir).replace(os.sep, "/") if path else path


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression for a whole relative path."""
    if "/" not in glob:
        glob = "**/" + glob
    expression = ""
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", glob.removeprefix("/")):
        expression += {"**/": "(?:[^/]+/)*", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            piece, re.escape(piece)
        )
    return re.compile(expression, re.DOTALL)
