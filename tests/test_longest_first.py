"""Modules are handed out longest first, each once and whole, and the list names only existing modules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist", reason="pytest-xdist is not installed")

from longest_first import LIST, ROOT, LongestFirst, longest

#: Test modules with the seconds of each of their tests; long modules are listed, short ones are not.
TESTS = {
    "tests/test_a.py": 40, "tests/test_b.py": 3, "fuzz/test_c.py::Class": 2, "tests/test_d.py": 9, "tests/test_e.py": 1,
}  # fmt: skip
LISTED = ["fuzz/test_c.py", "tests/test_e.py", "tests/test_gone.py"]


class Worker:
    """A worker that records its orders, and answers on request."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.gateway = SimpleNamespace(id="gw")
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr("longest_first.LIST", tmp_path / "list.txt")
    (tmp_path / "list.txt").write_text("\n".join(LISTED) + "\n")
    collected = [f"{module}::test_{i}" for module, count in TESTS.items() for i in range(count)]

    def given(workers: int) -> list[str]:
        """The modules in the order in which workers take them; all workers run one test at a time, in turn."""
        option = SimpleNamespace(tx=[f"{workers}*popen"], loadscopereorder=True)
        config = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
        scheduler = LongestFirst(config)  # type: ignore[arg-type]
        nodes: list[Any] = [Worker() for _ in range(workers)]
        for node in nodes:
            scheduler.add_node(node)
            scheduler.add_node_collection(node, collected)
        scheduler.schedule()
        run: list[str] = []
        while any(node.waiting for node in nodes):
            for node in nodes:
                if node.waiting:
                    number = node.waiting.pop(0)
                    run.append(collected[number])
                    scheduler.mark_test_complete(node, number)
        assert sorted(run) == sorted(collected)
        assert scheduler.tests_finished
        assert not scheduler.has_pending
        assert all(node.shutting_down for node in nodes)
        return list(dict.fromkeys(each.rpartition("::")[0] for each in run))

    return given


def test_the_longest_are_first_then_those_of_most_tests(order: Any) -> None:
    assert order(1) == [
        "fuzz/test_c.py::Class",
        "tests/test_e.py",
        "tests/test_a.py",
        "tests/test_d.py",
        "tests/test_b.py",
    ]


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_many_workers_run_every_test_once(order: Any, workers: int) -> None:
    assert set(order(workers)[:2]) <= {"fuzz/test_c.py::Class", "tests/test_e.py", "tests/test_a.py"}


def test_finished_modules_are_forgotten() -> None:
    """Each result is searched among the tests that a worker still has, not among all that it had."""
    option = SimpleNamespace(tx=["popen"], loadscopereorder=True)
    scheduler = LongestFirst(SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name)))  # type: ignore[arg-type]
    node: Any = Worker()
    scheduler.add_node(node)
    scheduler.add_node_collection(node, [f"tests/test_{i}.py::test_{k}" for i in range(30) for k in range(3)])
    scheduler.schedule()
    while node.waiting:
        scheduler.mark_test_complete(node, node.waiting.pop(0))
        assert len(scheduler.assigned_work[node]) <= 3


def test_the_list_names_modules_that_there_are() -> None:
    names = LIST.read_text(encoding="utf-8").split()
    assert len(names) > 20
    assert len(set(names)) == len(names)
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_the_list_is_made_of_reports(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    case = '<testcase classname="{}" name="x" time="{}"/>'
    times = [
        ("tests.test_house", 3), ("tests.test_house", 4), ("fuzz.fuzz_lint", 5), ("tests.test_gone", 90),
        ("tests.cli.test_lint.Class", 6), ("tests.test_errors", 0.1),
    ]  # fmt: skip
    report.write_text(f"<testsuite>{''.join(case.format(*each) for each in times)}</testsuite>")
    assert longest([report]) == ["tests/test_house.py", "tests/cli/test_lint.py", "fuzz/fuzz_lint.py"]
    assert longest([report, report]) == longest([report])
