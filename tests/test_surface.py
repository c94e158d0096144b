"""Compares what a user can call with the committed list, so that a review shows what is added or lost."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from surface import surface

COMMITTED = Path(__file__).with_name("surface.txt")


def test_everything_that_a_user_can_call_is_listed() -> None:
    listed = COMMITTED.read_text("utf-8").splitlines()
    changes = list(unified_diff(listed, list(surface()), "surface.txt", "the package", lineterm="", n=0))
    assert not changes, "review, then run `python tests/surface.py > tests/surface.txt`:\n" + "\n".join(changes)


def test_every_import_that_a_page_shows_can_be_imported() -> None:
    assert [line for line in COMMITTED.read_text("utf-8").splitlines() if line.endswith("MISSING")] == []
