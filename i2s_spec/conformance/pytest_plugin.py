"""A plug-in of pytest: `pytest --i2s-adapter "./adapter"` makes a test of every vector.

Nothing of this package is imported before the option is given.
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from i2s_spec.conformance.protocol import VectorCase
    from i2s_spec.conformance.runner import CaseRunner
    from i2s_spec.conformance.score import CaseResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("i2s", "test vectors of I2_S decoders")
    group.addoption("--i2s-adapter", metavar="COMMAND", help="An adapter; every vector becomes a test.")
    group.addoption("--i2s-vectors", metavar="DIR", help="Vectors that `i2s vectors export` wrote.")
    group.addoption("--i2s-known", metavar="FILE", help="List of failures that are known.")
    group.addoption("--i2s-timeout", type=float, default=10.0, metavar="S", help="Longest time for one answer.")


class VectorFailure(Exception):
    """A vector with a wrong answer, or a list of known failures that is out of date."""


class VectorTest(pytest.Item):
    """One vector."""

    def __init__(self, *, suite: _Suite, case: VectorCase, **more: Any) -> None:
        super().__init__(**more)
        self._suite = suite
        self._case = case

    def runtest(self) -> None:
        """Ask the adapter."""
        from i2s_spec.conformance.score import FAILURES, Status

        result = self._suite.runner.run(self._case)
        known = self._suite.known.get(self._case.id)
        if known is not None and result.status not in FAILURES:
            raise VectorFailure(f"{self._case.id} is a known failure, and is now: {result.status}")
        if result.status in FAILURES:
            if known is not None and result.text.startswith(known):
                pytest.xfail(result.text)
            raise VectorFailure(_sentence(self._case, result))
        if result.status is Status.SKIPPED:
            pytest.skip(result.message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the sentence alone, where the failure is one."""
        return str(excinfo.value) if isinstance(excinfo.value, VectorFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return its location: the suite, not a file of the project."""
        return self.path, None, self.name


def _sentence(case: VectorCase, result: CaseResult) -> str:
    clause = f" (clause {case.clause})" if case.clause else ""
    return f"{case.id} {case.op}{clause}: {result.text}"


class _Suite:
    """The vectors and the adapter; both exist when the first test runs."""

    def __init__(self, config: pytest.Config) -> None:
        from i2s_spec.conformance.protocol import AdapterFault, read_cases, require_program
        from i2s_spec.conformance.runner import ProtocolAsker
        from i2s_spec.conformance.score import read_list
        from i2s_spec.fuzzing.bounded_process import Bounds

        words = shlex.split(config.getoption("--i2s-adapter"))
        try:
            require_program(words)
        except AdapterFault as fault:
            pytest.exit(f"--i2s-adapter: {fault}", returncode=1)
        self._temporary = tempfile.TemporaryDirectory(prefix="i2s-vectors-")
        given = config.getoption("--i2s-vectors")
        if given is None:
            from i2s_spec.conformance.vectors.all_vectors import write_suite

            write_suite(self._temporary.name)
        self.cases = read_cases(given or self._temporary.name).cases
        listed = config.getoption("--i2s-known")
        self.known = read_list(listed) if listed else {}
        self._asker = ProtocolAsker(words, Bounds(config.getoption("--i2s-timeout"), 1 << 30))
        self._runner: CaseRunner | None = None

    @property
    def runner(self) -> CaseRunner:
        """The runner; it starts the adapter with the first test."""
        from i2s_spec.conformance.protocol import AdapterFault
        from i2s_spec.conformance.runner import CaseRunner

        if self._runner is None:
            try:
                self._runner = CaseRunner(self._asker)
            except AdapterFault as fault:
                pytest.exit(f"--i2s-adapter: {fault}", returncode=1)
        return self._runner

    def close(self) -> None:
        """Stop the adapter, and remove what was written."""
        self._asker.close()
        self._temporary.cleanup()


_SUITE = pytest.StashKey["_Suite"]()


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each vector."""
    if config.getoption("--i2s-adapter") is None:
        return
    from i2s_spec.errors import SettingError

    try:
        suite = config.stash[_SUITE] = _Suite(config)
    except (SettingError, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
    for case in suite.cases:
        items.append(VectorTest.from_parent(session, name=f"i2s[{case.id}-{case.op}]", suite=suite, case=case))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes that run."""
    if (suite := config.stash.get(_SUITE, None)) is not None:
        suite.close()
