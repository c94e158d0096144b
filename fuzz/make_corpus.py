"""Adds inputs to the corpus of a harness: from other folders, or random changes, if they increase coverage.

    python fuzz/make_corpus.py lint --also found    # from a folder, such as a search with Atheris leaves
    python fuzz/make_corpus.py lint --seconds 60    # random changes for a minute
    python fuzz/make_corpus.py lint --tidy          # remove found inputs that other inputs make superfluous

Inputs already in the corpus stay; an input is added for branches that no stored input takes. The same corpus and the
same code give the same choice.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from hashlib import sha256
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "i2s_spec"

#: The largest input that is stored.
MOST = 4095

#: Folders whose coverage counts for a harness.
ROOMS = {
    "container": ("gguf",), "payload": ("codec",), "lint": ("linter", "gguf"), "round_trips": ("linter", "gguf"),
    "golden_compare": ("golden",), "writer": ("gguf",), "command_line": ("linter", "gguf", "golden"),
}  # fmt: skip


class Merge:
    """A corpus that grows by inputs that increase coverage."""

    def __init__(self, harness: str, rooms: tuple[str, ...]) -> None:
        import coverage

        warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)  # an input may reach nothing
        self.name = harness
        self._measured = coverage.Coverage(
            branch=True, data_file=None, config_file=False, source=[str(PACKAGE / room) for room in rooms]
        )
        self._numbers: dict[tuple[str, int, int], int] = {}
        with self:
            self.module = importlib.import_module(f"fuzz_{harness}")
        self.known = set(self._reached())
        self.broken: list[str] = []

    def __enter__(self) -> None:
        self._measured.start()

    def __exit__(self, *rest: object) -> None:
        self._measured.stop()

    def _reached(self) -> frozenset[int]:
        data = self._measured.get_data()
        found = frozenset(
            self._numbers.setdefault((path, *arc), len(self._numbers))
            for path in data.measured_files()
            for arc in data.arcs(path) or ()
        )
        self._measured.erase()
        return found

    def run(self, name: str, content: bytes) -> frozenset[int]:
        """The steps from line to line that an input takes and no earlier input took."""
        try:
            with self:
                self.module.one_input(content)
        except Exception as error:
            self._measured.erase()
            print(f"  a find: {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            self.broken.append(name)
            return frozenset()
        return self._reached() - self.known

    def keep(self, name: str, content: bytes, new: frozenset[int]) -> None:
        """Add an input to the corpus."""
        folder = HERE / "corpus" / self.name
        folder.mkdir(exist_ok=True)
        while (folder / name).exists():
            name += "-too"
        (folder / name).write_bytes(content)
        self.known |= new

    def choose(self, candidates: list[tuple[str, bytes]]) -> int:
        """Keep candidates that together reach all branches of all: first the one that reaches most for its size, then
        the next."""
        found: dict[bytes, tuple[str, frozenset[int]]] = {}
        for at, (name, content) in enumerate(candidates):
            if len(content) <= MOST and content not in found and (new := self.run(name, content)):
                found[content] = name, new
            if at % 100 == 99:
                print(f"  {at + 1:,} of {len(candidates):,}", file=sys.stderr, flush=True)
        count = 0
        while found:
            found = {content: (name, left) for content, (name, new) in found.items() if (left := new - self.known)}
            if found:
                best = max(found, key=lambda content: (len(found[content][1]) / (256 + len(content)), content))
                self.keep(found[best][0], best, found[best][1])
                count += 1
        return count


def changes(merge: Merge, seconds: float, seed: str) -> None:
    """Random changes of stored inputs, for some time."""
    from harness import inputs

    from i2s_spec.testing.mutator import crossover, mutate

    chance, pool = Random(seed), [path.read_bytes() for path in inputs(merge.name)]
    pool = [content for content in pool if len(content) <= MOST]
    began, tried = time.monotonic(), 0
    while time.monotonic() - began < seconds and pool:
        base, tried = chance.choice(pool), tried + 1
        if base[:4] == b"GGUF":
            made = (
                mutate(base, chance.randrange(1 << 32), MOST)
                if chance.random() < 0.8
                else crossover(base, chance.choice(pool), chance.randrange(1 << 32), MOST)
            )
        else:
            made = stirred(base, chance.choice(pool), chance)
        name = f"found-{sha256(made).hexdigest()[:12]}"
        if new := merge.run(name, made):
            merge.keep(name, made, new)
            pool.append(made)
    print(f"  {tried:,} changes in {seconds:.0f} s", file=sys.stderr)


def stirred(data: bytes, other: bytes, chance: Random) -> bytes:
    """Bytes changed, inserted, removed, or copied from another input."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(made):
            made[at] = chance.randrange(256)
        elif kind == 1:
            made[at:at] = chance.randbytes(chance.choice((1, 2, 5)))
        elif kind == 2:
            del made[at : at + chance.choice((1, 2, 5))]
        elif kind == 3 and at < len(made):
            made[at] = (made[at] + chance.choice((1, -1))) % 256
        elif other:
            start = chance.randrange(len(other))
            made[at:] = other[start:]
    return bytes(made[:MOST])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", choices=ROOMS)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to try random changes")
    parser.add_argument("--seed", default="0", help="of these changes")
    parser.add_argument("--also", type=Path, action="append", default=[], help="a folder of inputs")
    parser.add_argument("--tidy", action="store_true", help="choose anew among the inputs that were found")
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    merge = Merge(given.harness, ROOMS[given.harness])
    from harness import inputs

    loose: list[tuple[str, bytes]] = []
    for path in inputs(given.harness):
        if given.tidy and path.parent.parent.name == "corpus" and path.name.startswith("found-"):
            loose.append((path.name, path.read_bytes()))
            path.unlink()
        else:
            merge.known |= merge.run(path.name, path.read_bytes())
    before = len(merge.known)
    if given.tidy:
        print(f"{given.harness}: {merge.choose(loose)} of {len(loose)} kept", file=sys.stderr)
        return 0
    candidates = [
        (path.name, path.read_bytes()) for folder in given.also for path in sorted(folder.iterdir()) if path.is_file()
    ]
    chosen_count = merge.choose(candidates)
    changes(merge, given.seconds, given.seed)
    print(
        f"{given.harness}: {before:,} steps before, {len(merge.known):,} now; {chosen_count} of {len(candidates):,} kept",
        file=sys.stderr,
    )
    return 1 if merge.broken else 0


if __name__ == "__main__":
    sys.exit(main())
