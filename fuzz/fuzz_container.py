"""The container: scanner and schema accept the same files with the same content, and refuse the same ones alike."""

from __future__ import annotations

from pathlib import Path

from harness import broken, changed, replayed, search

from i2s_spec.testing.twins import scanner_against_schema


def one_input(data: bytes) -> None:
    """What must hold for any bytes; whatever is raised here is a find."""
    scanner_against_schema(data)


@replayed("container")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_malformed_files() -> None:
    for data in broken(100_000):
        one_input(data)


def test_changed_files() -> None:
    for data in changed(400):
        one_input(data)


if __name__ == "__main__":
    search(one_input)
