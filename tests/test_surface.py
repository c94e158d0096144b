"""Compares what a user can call with the committed list, so that a review shows what is added or lost."""

from __future__ import annotations

import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

COMMITTED = Path(__file__).with_name("surface.txt")


def test_everything_that_a_user_can_call_is_listed() -> None:
    """In a process of its own: click keeps the options of help as the first call of a verb found them."""
    script = str(Path(__file__).with_name("surface.py"))
    found = subprocess.run(
        [sys.executable, script], capture_output=True, encoding="utf-8", check=True
    ).stdout.splitlines()
    listed = COMMITTED.read_text("utf-8").splitlines()
    changes = list(unified_diff(listed, found, "surface.txt", "the package", lineterm="", n=0))
    assert not changes, "review, then run `python tests/surface.py > tests/surface.txt`:\n" + "\n".join(changes)


def test_every_import_that_a_page_shows_can_be_imported() -> None:
    assert [line for line in COMMITTED.read_text("utf-8").splitlines() if line.endswith("MISSING")] == []
