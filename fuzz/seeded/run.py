"""Puts in the seeded bugs, one at a time, and checks whether the tests notice: python fuzz/seeded/run.py

It takes about an hour, and is not part of CI. `--only` takes the beginning of names and may be repeated. The tests must
pass before anything is broken. The exit code is 0 if at least 90 % of the bugs are noticed and every other one has a
reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seeded.bug import Bug, faults_of
from seeded.catalogue import BUGS
from seeded.workshop import Outcome, Workshop

#: The share of bugs that the tests must notice.
LEAST = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", default=[], help="bugs whose name begins so")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the outcomes in a file too")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if not options.only or bug.name.startswith(tuple(options.only))]
    if not bugs:
        parser.error(f"no bug is called {' or '.join(options.only)}")
    if faults := faults_of(bugs):
        parser.error("\n".join(faults))

    with tempfile.TemporaryDirectory(prefix="seeded-") as folder, workshops(Path(folder), options.jobs) as free:
        tests = tuple(dict.fromkeys(test for bug in bugs for test in bug.tests))
        print(f"{len(bugs)} bugs, {len(tests)} test files; first without any bug", flush=True)
        workshop = free.get()
        whole = workshop.tested(tests, 3600)
        free.put(workshop)
        if whole.killed:
            print(f"the tests fail as it is: {whole.by}")
            return 2
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda bug: one(bug, free), bugs))
    if options.json:
        write(options.json, bugs, outcomes)
    return table(bugs, [outcome for outcome, _ in outcomes])


@contextmanager
def workshops(folder: Path, count: int) -> Iterator[SimpleQueue[Workshop]]:
    """One copy for each worker, with the extensions built once."""
    free: SimpleQueue[Workshop] = SimpleQueue()
    first: Workshop | None = None
    for number in range(count):
        path = folder / f"copy{number}"
        path.mkdir()
        workshop = Workshop(path)
        if first is None:
            first = workshop
            first.build_all()
        else:
            workshop.take_built(first)
        free.put(workshop)
    yield free


def one(bug: Bug, free: SimpleQueue[Workshop]) -> tuple[Outcome, float]:
    """The outcome of one bug, and its duration."""
    workshop = free.get()
    start = time.monotonic()
    try:
        outcome = workshop.broken(bug)
    except RuntimeError as error:  # nobody could have made this bug
        outcome = Outcome(False, f"COULD NOT BE TRIED: {error}")
    finally:
        free.put(workshop)
    seconds = time.monotonic() - start
    print(f"{'killed  ' if outcome.killed else 'SURVIVED'} {bug.name} ({seconds:.0f} s) {outcome.by}", flush=True)
    return outcome, seconds


def write(path: Path, bugs: list[Bug], outcomes: list[tuple[Outcome, float]]) -> None:
    """Write a row for each bug of the catalogue; bugs that did not run now keep theirs."""
    rows = {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))} if path.is_file() else {}
    for bug, (outcome, seconds) in zip(bugs, outcomes, strict=True):
        by = outcome.by if outcome.killed else bug.survives or outcome.by
        rows[bug.name] = {"name": bug.name, "killed": outcome.killed, "by": by, "seconds": round(seconds)}
    lines = ",\n".join(json.dumps(rows[bug.name]) for bug in BUGS if bug.name in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def table(bugs: list[Bug], outcomes: list[Outcome]) -> int:
    """Print the score by file and in total, and the bugs that no test noticed."""
    pairs = sorted(zip(bugs, outcomes, strict=True), key=lambda pair: pair[0].file)
    print(f"\n{'file':40} {'bugs':>5} {'killed':>7}")
    for file, group in groupby(pairs, key=lambda pair: pair[0].file):
        each = [outcome.killed for _, outcome in group]
        print(f"{file:40} {len(each):5} {sum(each):7}")
    killed = sum(outcome.killed for outcome in outcomes)
    print(f"{'all':40} {len(bugs):5} {killed:7}  {killed / len(bugs):.1%}")
    unexplained = 0
    for bug, outcome in pairs:
        if not outcome.killed:
            unexplained += not bug.survives
            print(f"survived: {bug.name} ({bug.wrong}): {bug.survives or 'NO REASON IS GIVEN'}")
        elif bug.survives:
            print(f"noticed after all: {bug.name}, by {outcome.by}")
    return int(killed < LEAST * len(bugs) or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
