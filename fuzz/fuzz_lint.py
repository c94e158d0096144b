"""The linter: it never raises, says the same each time, points into the file, prints nothing it got, and ends in time."""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness import broken, changed, replayed, search

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.profile import PROFILES

#: Processor time that a verdict may take: so much, and so much for each byte.
SECONDS, SECONDS_PER_BYTE = 2.0, 1e-5


def one_input(data: bytes) -> None:
    """What must hold for any bytes; whatever is raised here is a find."""
    profile = tuple(PROFILES)[len(data) % len(PROFILES)]
    began = time.process_time()
    report = lint(data, profile=profile, runtimes=len(data) % 2 == 0)
    assert time.process_time() - began < SECONDS + SECONDS_PER_BYTE * len(data)
    assert not report.bugs, report.bugs
    fault = File(BufferSource(data)).fault
    assert fault is None or fault.code in {finding.code for finding in report.findings}
    for finding in report.findings:
        assert 0 <= finding.span.start <= finding.span.stop <= len(data), finding
        assert finding.message.isprintable(), finding
    said = json.dumps(report.as_dict(), allow_nan=False)
    assert said.isascii()
    assert json.dumps(lint(data, profile=profile, runtimes=len(data) % 2 == 0).as_dict()) == said


@replayed("container", "lint")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_malformed_files() -> None:
    for data in broken(10_000, every=2):
        one_input(data)


def test_changed_files() -> None:
    for data in changed(120, seed=1):
        one_input(data)


if __name__ == "__main__":
    search(one_input)
