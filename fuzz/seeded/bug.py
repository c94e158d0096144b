"""What a seeded bug is: an exact text of one file, the text that breaks it, and the tests that have to notice."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent


class Bug(NamedTuple):
    """One mistake.

    :param name: what it is called, unique
    :param file: the file that it is made in, from the root of the checkout
    :param wrong: what goes wrong
    :param old: the text that is replaced; it occurs exactly once
    :param new: the text that stands there instead
    :param tests: what is run against it: files, or tests in them
    :param survives: why no test can notice it here; empty for all others
    """

    name: str
    file: str
    wrong: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str = ""


#: A bug without what it shares with others of its file: name, what goes wrong, old text, new text, and perhaps a reason.
Words = tuple[str, str, str, str] | tuple[str, str, str, str, str]


def seeded(file: str, tests: str, *bugs: Words) -> list[Bug]:
    """The bugs of one file that the same tests look for.

    :param tests: paths from `tests/` on, in the order in which they run; those that begin with `fuzz/` from the root
    """
    paths = tuple(path if path.startswith("fuzz/") else f"tests/{path}" for path in tests.split())
    return [
        Bug(name, file, wrong, old, new, paths, *survives) for name, wrong, old, new, *survives in bugs
    ]  # fmt: skip


def faults_of(bugs: list[Bug], root: Path = ROOT) -> list[str]:
    """What is wrong with a list: names twice, texts that do not occur exactly once, tests that are not there."""
    faults = []
    names: set[str] = set()
    for bug in bugs:
        if bug.name in names:
            faults.append(f"{bug.name}: the name is there twice")
        names.add(bug.name)
        path = root / bug.file
        count = path.read_text(encoding="utf-8").count(bug.old) if path.is_file() else 0
        if count != 1:
            faults.append(f"{bug.name}: its text occurs {count} times in {bug.file}; change the list with the code")
        if bug.old == bug.new or not bug.wrong:
            faults.append(f"{bug.name}: it breaks nothing, or does not say what")
        faults += [
            f"{bug.name}: {test} is not there" for test in bug.tests if not (root / test.partition("::")[0]).is_file()
        ]
        if not bug.tests:
            faults.append(f"{bug.name}: no tests")
    return faults
