"""Where the files of other projects are: `I2S_SHARED`, or the folder `shared` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("I2S_SHARED") or ROOT.parent / "shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="Write golden transcripts anew (tests/transcripts)."
    )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the reference implementations' vectors and other projects' files."""
    if not (SHARED / "vectors" / "manifest.json").is_file():
        pytest.skip(f"no reference files: set I2S_SHARED, or put them into {SHARED.name}/ beside the checkout")
    return SHARED
