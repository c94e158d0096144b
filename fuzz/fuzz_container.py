"""The container: scanner and schema accept the same files with the same content, and refuse the same ones alike.

`pytest fuzz` replays the corpus, the regressions and the malformed files. With Atheris installed,
`python fuzz/fuzz_container.py fuzz/corpus/container` searches for more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from i2s_spec.linter.engine import lint
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.twins import scanner_against_schema

HERE = Path(__file__).resolve().parent
INPUTS = sorted(HERE.glob("*/container/*.gguf"))


def one_input(data: bytes) -> None:
    """What must hold for any bytes; whatever is raised here is a find."""
    code = scanner_against_schema(data)
    report = lint(data)
    assert code is None or code in {finding.code for finding in report.findings}
    assert all(0 <= f.span.start <= f.span.stop <= len(data) for f in report.findings)
    assert all(f.message.isprintable() for f in report.findings)
    assert lint(data) == report


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_malformed_files() -> None:
    for case in malformed():
        if len(case.data) < 100_000:
            one_input(case.data)


if __name__ == "__main__":
    import atheris

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
