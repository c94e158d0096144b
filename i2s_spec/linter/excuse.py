"""This module defines excuses: findings that somebody decided to live with, in files of certain names, for a reason.

An excuse needs its reason; what it covers is counted in every report, and an excuse that covered nothing in a run is
mentioned, so that none outlives its cause.

    >>> Excuse("models/**/old-*.gguf", ("P1",), "made before the gap was closed").covers("models/a/b/old-1.gguf")
    True
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from i2s_spec.linter.totals import Judged


class Excuse(NamedTuple):
    """Codes (prefixes or slugs) that are excused in the files that a pattern fits, and why.

    A pattern is relative to `base`, the folder of the file that the excuse is written in. `*` and `?` stand for parts of
    one name and `**` for any number of folders; a pattern without `/` fits names in every folder.
    """

    files: str
    codes: tuple[str, ...]
    reason: str
    base: str = ""

    def covers(self, path: str) -> bool:
        """Whether the pattern fits a path, which is relative to the current folder."""
        return _pattern(self.files).fullmatch(_relative(path, self.base)) is not None


def excuse_for(path: str, excuses: Iterable[Excuse]) -> dict[str, str]:
    """What is excused in one file: prefixes or slugs, each with its reason; of two excuses the later one counts."""
    return {code: excuse.reason for excuse in excuses if excuse.covers(path) for code in excuse.codes}


def used(excuses: Iterable[Excuse], path: str, judged: Judged) -> set[Excuse]:
    """Those of some excuses that covered a finding of a report."""
    reasons = {excused["reason"] for excused in judged["excused"]}
    return {excuse for excuse in excuses if excuse.reason in reasons and excuse.covers(path)}


def _relative(path: str, base: str) -> str:
    """A path as seen from a folder, with `/` between its parts."""
    shown = os.path.relpath(path, base or os.curdir)
    return shown.replace(os.sep, "/")


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
