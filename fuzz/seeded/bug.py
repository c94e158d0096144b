"""A seeded bug: a text in one file, the wrong text that replaces it, and the tests that must notice.

The text need not match letter by letter: if identifiers were renamed or lines broken elsewhere, the place with the same
tokens up to renaming is used, and the new text is renamed in the same way.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")
#: Words that are never renamed: of Python, Cython and C.
_C_WORDS = "cdef cpdef noexcept nogil int static const void return for while if else break"
_KEYWORDS = {*keyword.kwlist, *_C_WORDS.split()}
#: Minimum number of tokens other than identifiers; a shorter text matches too many places after renaming.
_LEAST_FIXED = 3


class Bug(NamedTuple):
    """One mistake.

    :param name: a unique name
    :param file: the file to change, from the root of the checkout
    :param wrong: the effect of the bug
    :param old: the text to replace; it has exactly one place (see `broken`)
    :param new: the text that replaces it
    :param tests: the tests to run: files, or tests in them
    :param survives: why no test can notice it here; empty for all others
    """

    name: str
    file: str
    wrong: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str = ""


#: A bug without the fields that bugs of its file share: name, effect, old text, new text, and possibly a reason.
Words = tuple[str, str, str, str] | tuple[str, str, str, str, str]


def seeded(file: str, tests: str, *bugs: Words) -> list[Bug]:
    """The bugs of one file that the same tests must notice.

    :param tests: paths from `tests/` on, in the order in which they run; those that begin with `fuzz/` from the root
    """
    paths = tuple(path if path.startswith("fuzz/") else f"tests/{path}" for path in tests.split())
    return [
        Bug(name, file, wrong, old, new, paths, *survives) for name, wrong, old, new, *survives in bugs
    ]  # fmt: skip


def broken(text: str, bug: Bug) -> str | None:
    """A file with the bug in it; None if the old text has no place in it, or more than one."""
    if text.count(bug.old) == 1:
        return text.replace(bug.old, bug.new)
    wanted, found = [met[0] for met in _TOKEN.finditer(bug.old)], list(_TOKEN.finditer(text))
    fixed = sum(not _is_name(token) for token in wanted)
    if fixed < _LEAST_FIXED or bug.old in text:
        return None
    places: list[tuple[int, int, dict[str, str]]] = []  # identifiers that are the same, place, identifiers by old ones
    for at in range(len(found) - len(wanted) + 1):
        names = _renamed(wanted, [met[0] for met in found[at : at + len(wanted)]])
        if names is not None:
            places.append((sum(old == new for old, new in names.items()), at, names))
    places.sort(key=lambda place: -place[0])
    if not places or (len(places) > 1 and places[0][0] == places[1][0]):
        return None
    _, at, names = places[0]
    new = _TOKEN.sub(lambda met: names.get(met[0], met[0]), bug.new)
    return text[: found[at].start()] + new + text[found[at + len(wanted) - 1].end() :]


def _is_name(token: str) -> bool:
    return (token[0].isalpha() or token[0] == "_") and token not in _KEYWORDS


def _renamed(old: list[str], new: list[str]) -> dict[str, str] | None:
    """The renamed identifiers, if two lists of tokens differ only in these."""
    names: dict[str, str] = {}
    for one, other in zip(old, new, strict=True):
        if not (_is_name(one) and _is_name(other)):
            if one != other:
                return None
        elif names.setdefault(one, other) != other:
            return None
    return names if len(set(names.values())) == len(names) else None


def faults_of(bugs: list[Bug], root: Path = ROOT) -> list[str]:
    """Errors in a list: duplicate names, texts without exactly one place, missing tests."""
    faults = []
    names: set[str] = set()
    for bug in bugs:
        if bug.name in names:
            faults.append(f"{bug.name}: the name is there twice")
        names.add(bug.name)
        path = root / bug.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if broken(text, bug) is None:
            faults.append(f"{bug.name}: its text has {text.count(bug.old)} places in {bug.file}; change the list")
        if bug.old == bug.new or not bug.wrong:
            faults.append(f"{bug.name}: it breaks nothing, or does not say what")
        faults += [
            f"{bug.name}: {test} is not there" for test in bug.tests if not (root / test.partition("::")[0]).is_file()
        ]
        if not bug.tests:
            faults.append(f"{bug.name}: no tests")
    return faults
