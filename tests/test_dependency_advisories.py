"""No dependency is accepted in a version of which a weakness is known in what is used of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent


class Advisory(NamedTuple):
    """A weakness of a dependency, and the first version without it."""

    package: str
    mended_in: str
    number: str
    what: str


#: Weaknesses that concern what this package uses, by the CVE list.
ADVISORIES = [
    Advisory("jinja2", "3.1.4", "CVE-2024-34064", "keys of the filter xmlattr become attributes"),
    Advisory("jinja2", "3.1.5", "CVE-2024-56201", "a template's name is compiled as code"),
    Advisory("jinja2", "3.1.5", "CVE-2024-56326", "the sandbox is left by a reference to str.format"),
    Advisory("jinja2", "3.1.6", "CVE-2025-27516", "the sandbox is left by the filter attr"),
]


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def floors() -> dict[str, list[tuple[int, ...]]]:
    """The lowest versions that each place accepts, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, list[tuple[int, ...]]] = {}
    for each in [*project["dependencies"], *(e for extra in project["optional-dependencies"].values() for e in extra)]:
        name = re.match(r"[A-Za-z0-9_.-]+", each)
        floor = re.search(r"[>=]=\s*([0-9.]+)", each)
        assert name is not None
        found.setdefault(name[0].lower(), []).append(version(floor[1]) if floor else (0,))
    return found


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda advisory: advisory.number)
def test_no_weak_version_is_accepted(advisory: Advisory) -> None:
    accepted = floors()
    assert advisory.package in accepted
    assert min(accepted[advisory.package]) >= version(advisory.mended_in)


def test_every_dependency_has_a_floor() -> None:
    assert [name for name, versions in floors().items() if min(versions) == (0,)] == []
