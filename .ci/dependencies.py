"""Compares the lowest accepted versions of dependencies with advisories.

    python .ci/dependencies.py check            exits with 1 if a version in advisories.json is accepted
    python .ci/dependencies.py floors           the lowest accepted versions, in the form of pip-audit

It needs only Python and no network: where an index gives no advisories, pip-audit finds none and succeeds.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

Version = tuple[int, ...]


def version(text: str) -> Version:
    """Return the numbers of a version, for comparison."""
    return tuple(map(int, re.findall(r"\d+", text)))


def requirements() -> Iterator[tuple[str, str]]:
    """Every requirement of the project, its extras and its build, and the lowest version that it accepts ('' for any)."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    lists = [declared["build-system"]["requires"], project["dependencies"], *project["optional-dependencies"].values()]
    for each in (requirement for some in lists for requirement in some):
        name = re.match(r"[A-Za-z0-9_.-]+", each)
        floor = re.search(r"[>=]=\s*([0-9.]+)", each)
        assert name is not None
        yield normal(name[0]), floor[1] if floor else ""


def normal(name: str) -> str:
    """Return a name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def floors() -> dict[str, str]:
    """Return the lowest accepted version of each package, over all requirements."""
    found: dict[str, str] = {}
    for name, floor in requirements():
        found[name] = min(found.get(name, floor), floor, key=version)
    return found


def advisories() -> list[dict[str, str]]:
    """Return the committed list."""
    listed: list[dict[str, str]] = json.loads((HERE / "advisories.json").read_text(encoding="utf-8"))
    return listed


def accepted() -> list[str]:
    """Problems: accepted versions that an advisory lists, and advisories about packages that are not used."""
    lowest = floors()
    wrong = [f"{name} has no lowest version" for name, floor in lowest.items() if not floor]
    for each in advisories():
        floor = lowest.get(each["package"])
        if floor is None:
            wrong.append(f"{each['id']} is about {each['package']}, which is not used")
        elif version(floor) < version(each["mended_in"]):
            wrong.append(
                f"{each['package']} {floor} is accepted, but {each['id']} is fixed only in {each['mended_in']}"
            )
    return wrong


def main(words: list[str]) -> int:
    """Run the command line and return the exit code."""
    if words == ["check"]:
        wrong = accepted()
        print("\n".join(wrong) or f"none of {len(advisories())} advisories lists an accepted version")
        return int(bool(wrong))
    if words == ["floors"]:
        print("\n".join(f"{name}=={floor}" for name, floor in sorted(floors().items()) if floor))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
