"""This module turns failures of a search into regressions: one small input and one page for each kind of failure.

    python fuzz/triage.py lint found/crash-* found/timeout-*

Inputs that fail in the same place are one failure. It is minimized and written to `regressions/` with a page in
`regressions/pages/`, and the command that replays it is printed. A failure that an existing regression still shows is
known, and is not written again. The exit code is 1 if something new was written, 2 if the harness cannot run.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from triage_page import Find, Shelf, relative
from triage_run import HERE, Failure, Runner, WorkerError
from triage_shrink import smallest

from i2s_spec.errors import counted, quote


def main(words: Sequence[str] | None = None) -> int:
    """Triage failures, as the command line says.

    :param words: the arguments; those of the process if left out
    """
    given = _arguments(words)
    harness = Path(given.harness) if given.harness.endswith(".py") else HERE / f"fuzz_{given.harness}.py"
    if not harness.is_file():
        return _refused(f"there is no harness {quote(str(given.harness))}: one of {', '.join(_harnesses())}, or a file")
    if given.name is not None and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", given.name):
        return _refused(f"{quote(given.name)} is no name: small letters, digits, and hyphens between them")
    try:
        files = list(_files(given.find))
        with Runner(harness, given.timeout, given.memory << 20) as runner:
            return _triage(runner, Shelf(given.regressions, runner.harness), files, given)
    except (OSError, WorkerError) as error:
        return _refused(quote(str(error), limit=400, bare=True))


def _triage(runner: Runner, shelf: Shelf, files: Sequence[Path], given: argparse.Namespace) -> int:
    groups: dict[str, list[tuple[Path, bytes, Failure]]] = {}
    for path in files:
        data = path.read_bytes()
        failure, again = runner.failure(data), runner.failure(data)
        if failure is None and again is None:
            print(f"passes: {_shown(path)} does not fail, or no longer")
        elif failure is None or again is None or failure.id != again.id:
            print(f"unsteady: {_shown(path)} does not fail the same way twice; nothing is written for it")
        else:
            groups.setdefault(failure.id, []).append((path, data, failure))

    new = 0
    for finds in groups.values():
        path, data, failure = min(finds, key=lambda find: (len(find[1]), find[1]))
        names = [(path.name, len(data)), *((other.name, len(raw)) for other, raw, _ in finds if other != path)]
        print(f"{counted(len(finds), 'find')}: {quote(failure.signature, limit=600, bare=True)}")
        print(f"  says: {quote(failure.message, limit=200, bare=True)}")
        known = next(
            (entry for entry in shelf.with_signature(failure.id) if _still(runner, entry.input, failure)), None
        )
        if known is not None:
            print(f"  known: {_shown(known.input)}\n  replay: {shelf.replay(known)}")
            continue
        new += 1
        small, failure = _made_small(runner, data, failure, given)
        print(f"  made small: {counted(len(small), 'byte')}, from {len(data):,} of {_shown(path)}")
        if given.dry_run:
            continue
        entry = shelf.put(Find(failure, small, names), given.name)
        print(f"  wrote: {_shown(entry.input)}\n  page: {_shown(entry.page)}\n  replay: {shelf.replay(entry)}")
    print(f"{counted(len(files), 'file')}, {counted(len(groups), 'signature')}, {new:,} new")
    return 1 if new else 0


def _made_small(runner: Runner, data: bytes, failure: Failure, given: argparse.Namespace) -> tuple[bytes, Failure]:
    """The smallest input that fails the same way, and its failure, whose message may differ."""
    last = [failure]

    def happens(other: bytes) -> bool:
        found = runner.failure(other)
        if found is None or found.id != failure.id:
            return False
        last[0] = found
        return True

    small = smallest(data, happens, given.runs, given.seconds)
    return small, last[0]


def _still(runner: Runner, path: Path, failure: Failure) -> bool:
    """Whether a stored input still fails the same way; if it was fixed, a new failure in the same place is a new
    one."""
    found = runner.failure(path.read_bytes())
    return found is not None and found.id == failure.id


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        yield from sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else (path,)


def _harnesses() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def _shown(path: Path) -> str:
    return quote(relative(path), limit=4096, bare=True)


def _refused(why: str) -> int:
    print(f"triage: {why}", file=sys.stderr)
    return 2


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Turn what a search found into regressions, each with a page.")
    parser.add_argument("harness", help=f"{', '.join(_harnesses())}; or the file of a harness")
    parser.add_argument("find", nargs="+", type=Path, help="an input that fails, or a folder of such")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--name", help="what the regression is called (else after the exception and the function)")
    parser.add_argument("--timeout", type=float, default=20.0, metavar="S", help="how long an input may take (20)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MB", help="how much it may ask for (2048)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="time to make one small (60)")
    parser.add_argument("--runs", type=int, default=3000, metavar="N", help="runs to make one small (3000)")
    parser.add_argument("--regressions", type=Path, default=HERE / "regressions", metavar="DIR", help="where they go")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
