"""The order in which processors take modules of tests: the longest first, so that all processors end together.

`--dist loadscope` hands out whole modules, those with the most tests first. A module with few slow tests is then started
last, and the other processors wait for it. `python tests/longest_first.py FILE...` reads times from the output of
`pytest --junit-xml=FILE`, and writes the list of slow modules.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).resolve().parent.parent

#: Modules of tests, the longest first. Modules without an entry take little time and are ordered by their number of
#: tests.
LIST: Final = Path(__file__).with_name("longest_first.txt")

#: Modules that take less than this share of the longest are not listed.
LEAST: Final = 0.02


class LongestFirst(LoadScopeScheduling):
    """`--dist loadscope` with another order, and with steps that do not grow with the number of tests."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._places = {name: place for place, name in enumerate(LIST.read_text(encoding="utf-8").split())}
        self._numbers: dict[WorkerController, dict[str, int]] = {}

    def _place(self, scope: str) -> int:
        return self._places.get(scope.partition("::")[0], len(self._places))

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the longest module not yet assigned. Finished modules are forgotten; otherwise each result would be
        searched among all tests."""
        scope = min(self.workqueue, key=self._place)
        unit = self.workqueue.pop(scope)
        begun = {each: tests for each, tests in self.assigned_work.get(node, {}).items() if not all(tests.values())}
        self.assigned_work[node] = begun | {scope: unit}
        if node not in self._numbers:
            self._numbers[node] = {test: number for number, test in enumerate(self.registered_collections[node])}
        node.send_runtest_some([self._numbers[node][test] for test, ended in unit.items() if not ended])


def longest(reports: Iterable[Path]) -> list[str]:
    """The modules that take long by reports of JUnit's form, the longest first; of several runs the longest counts."""
    seconds: Counter[str] = Counter()
    for report in reports:
        of_run: Counter[str] = Counter()
        for case in ElementTree.parse(report).iter("testcase"):
            words = case.get("classname", "").split(".")
            while words and not (ROOT / "/".join(words)).with_suffix(".py").is_file():
                words.pop()  # a class in a module
            if words:
                of_run["/".join(words) + ".py"] += float(case.get("time", "0"))  # type: ignore[assignment]
        seconds |= of_run
    return [name for name, time in seconds.most_common() if time >= LEAST * max(seconds.values())]


if __name__ == "__main__":
    LIST.write_text("\n".join(longest(Path(name) for name in sys.argv[1:])) + "\n", encoding="utf-8")
