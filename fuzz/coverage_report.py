"""Branch coverage of the folders that read untrusted input, from the stored inputs of the harnesses alone.

    pip install coverage
    python fuzz/coverage_report.py              # corpus and regressions, then with the malformed files as well
    python fuzz/coverage_report.py --missing    # also list the branches that no input takes

Every input goes through `one_input` of its harness, in this process, as `pytest fuzz` replays it; nothing else runs. The
exit code is 1 if a folder stays below the minimum. `UNREACHABLE` excludes branches that no input can reach, each with
its reason; an entry whose line no longer exists is refused.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = ROOT / "i2s_spec"

#: The measured folders, by their names in the issue.
ROOMS = {"reader": "gguf", "codec": "codec", "lint": "linter", "comparison": "golden"}

HARNESSES = (
    "container", "writer", "payload", "lint", "round_trips", "golden_compare", "differential", "command_line",
)  # fmt: skip

#: Harnesses that also get the malformed files.
OF_FILES = ("container", "lint", "round_trips")

FLOOR = 95.0


#: Lines from which some branches cannot be reached by any input (module, line or `*` for the whole module, reason).
#: Missing branches from these lines do not count.
UNREACHABLE: tuple[tuple[str, str, str], ...] = (
    # These depend on the file system.
    ("gguf/atomic_file.py", "if fd >= 0:", "no temporary file could be made"),
    ("gguf/atomic_file.py", "if error.errno not in _NO_LINKS:", "a file system without hard links"),
    ("gguf/atomic_file.py", "if error.errno == errno.EEXIST:", "another program takes the name meanwhile"),
    ("gguf/atomic_file.py", "if usage.total and size > usage.free:", "a disk that is full"),
    ("gguf/atomic_file.py", "if os.path.islink(path) and not force:", "a link to nowhere"),
    ("gguf/atomic_file.py", "if taken is None:", "a stream of the caller's that does not count"),
    ("gguf/atomic_file.py", "if not isinstance(target, str | os.PathLike):", "a stream of the caller's onto the source"),
    ("gguf/source.py", "if not more:", "reads of more than 2 GiB"),
    ("linter/paths.py", "for error in errors:", "a folder that may not be read"),
    # Limits that inputs of the corpus, of at most four kilobytes, cannot reach.
    ("gguf/writer.py", "if len(self._tensors) >= limits.MAX_TENSORS:", "a million calls"),
    ("gguf/writer.py", "if len(self._records) >= limits.MAX_KEYS - 1:", "a million calls"),
    ("gguf/writer.py", "if size >= limits.INT64_END:", "a file that no disk holds"),
    ("codec/encoding.py", "if len(found) > MOST_MAGNITUDES:", "a million weights of a thousand magnitudes"),
    ("linter/sanitize.py", "if _is_text(entry) and size > _LONGEST_TEXT:", "sixteen megabytes"),
    ("linter/sanitize.py", "if at >= 0 and entry.count > _MOST_BOOLEANS:", "a megabyte"),
    ("linter/runtimes/loader_checks.py", "if subject.file.index.tensors <= MOST_TENSORS:", "65,536 tensors"),
    ("linter/runtimes/loader_checks.py", "if h.layers * 20 > MOST_TENSORS:", "3,277 layers"),
    ("linter/repair/tokenizer.py", "if stop - start > LARGEST:", "megabytes of tokens"),
    (
        "linter/repair/tensors.py", "if sum(2 * tensor.nbytes for tensor in remaining) > MOST_FLOATS:",
        "megabytes of floats",
    ),
    ("linter/repair/tokenizer.py", "if len(edits) > MOST:", "megabytes of tokens"),
    ("linter/repair/tokenizer.py", "if items is None:", "megabytes of tokens"),
    ("linter/repair/layout.py", "if odd > MOST_BOOLEANS:", "a megabyte"),
    ("linter/report/html_pictures.py", "if count > records:", "a thousand keys or tensors"),
    ("linter/report/html_pictures.py", "if place == records:", "a thousand keys or tensors"),
    ("linter/report/html_pictures.py", "if cursor < size:", "a thousand keys or tensors"),
    ("linter/report/html_pictures.py", 'if region.kind == "rest":', "a thousand keys or tensors"),
    (
        "linter/analysis/architecture_view.py", "if entry.type == ValueType.STRING and count > TEXT_BYTES:",
        "a text of 64 kilobytes",
    ),
    ("linter/runtimes/lenient_header.py", "if self.strings_left < 0:", "a million strings"),
    ("linter/rules/template.py", "if stop - start > most:", "a text of 256 kilobytes"),
    (
        "linter/rules/template.py", "if array is not None and array.longest > LONG_ITEM:",
        "a token of 64 kilobytes",
    ),
    ("linter/analysis/template_hazards.py", "if whole:", "a template of 256 kilobytes"),
    ("golden/dumps.py", "if len(found) >= MOST_TAPS:", "a million taps"),
    ("golden/dumps.py", "if len(members) > MOST_TAPS:", "a million taps"),
    (
        "golden/candidate.py", "while self._cached_bytes > CACHED_BYTES and len(self._cached) > 1:",
        "megabytes of taps",
    ),
    # Checks for bugs of this package: if a fuzzer reaches one, it has found a bug.
    ("codec/kernels.py", "for group in (1, 16, 32, cols, rows // 4 * cols):", "guards an assertion"),
    ("codec/native.py", "for start in range(0, tensor.elements, step):", "guards an assertion"),
    ("linter/engine.py", 'if os.environ.get("I2S_DEBUG"):', "a bug of ours"),
    ("linter/paths.py", 'if os.environ.get("I2S_DEBUG"):', "a bug of ours"),
    ("linter/report_data.py", "if bugs:", "a bug of ours"),
    ("linter/report/text.py", 'if file_report["bugs"]:', "a bug of ours"),
    ("linter/report/text.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/report/markdown.py", 'if file_report["bugs"]:', "a bug of ours"),
    ("linter/report/markdown.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/report/markdown.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/report/structured.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/report/sarif.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/report/html.py", 'if file_report["bugs"]:', "a bug of ours"),
    ("linter/report/html.py", 'for bug in file_report["bugs"]:', "a bug of ours"),
    ("linter/rule.py", "if made.code in REGISTRY:", "a rule declared twice"),
    ("linter/repair/plan.py", "if code in REPAIRS:", "a repair declared twice"),
    (
        "linter/repair/plan.py", "if safety is Fix.NONE or (weights and safety is Fix.SAFE):",
        "a repair declared wrongly",
    ),
    ("linter/repair/plan.py", "for _ in range(PASSES):", "repairs that never settle"),
    (
        "linter/repair/fix.py", "if weights.before != weights.after and not weights.why and not weights.changed_by:",
        "a proof that fails",
    ),
    ("linter/sanitize.py", "if wanted is not None and found != wanted:", "a proof that fails"),
    ("golden/store.py", "if name in self.taps:", "a graph that names a node twice"),
    # Other processes, and other machines.
    ("linter/process_pool.py", "*", "what runs in another process; its work is `check`, which is measured"),
    ("linter/process_pool.py", "if self.status >= 0:", "a worker that dies"),
    ("linter/process_pool.py", "if worker.given:", "a worker that dies"),
    ("linter/process_pool.py", "for item in worker.given:", "a worker that dies"),
    ("linter/process_pool.py", "if kill:", "an interruption"),
    ("codec/isa.py", "if not dict(all_names)[name]:", "a processor without these instructions"),
)  # fmt: skip


class Module(NamedTuple):
    """Branches of a module: their number, the number taken, and those not taken (from line, to line)."""

    path: str
    branches: int
    taken: int
    missing: list[tuple[int, int]]


def replay(names: Iterable[str]) -> None:
    """Run each harness on its own stored inputs."""
    from harness import inputs

    for name in names:
        harness = importlib.import_module(f"fuzz_{name}")
        began = time.monotonic()
        paths = inputs(name)
        for path in paths:
            harness.one_input(path.read_bytes())
        print(f"  {name}: {len(paths)} inputs, {time.monotonic() - began:.1f} s", file=sys.stderr)


def replay_malformed(names: Iterable[str]) -> None:
    """Run harnesses of files on the output of `i2s vectors export --malformed`."""
    from harness import broken

    for name in names:
        harness = importlib.import_module(f"fuzz_{name}")
        for data in broken(400_000):
            harness.one_input(data)


def modules(measured: Any) -> Iterator[Module]:
    """The branches taken so far."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(path))
        files = json.loads(path.read_text())["files"]
    for name, about in sorted(files.items()):
        place = str((ROOT / name).relative_to(PACKAGE))
        lines = ["", *(ROOT / name).read_text(encoding="utf-8").splitlines()]
        left_out = {line for module, line, _ in UNREACHABLE if module == place}
        missing = [
            (a, b) for a, b in about["missing_branches"] if not left_out & {"*", lines[a].partition("  #")[0].strip()}
        ]
        taken: int = about["summary"]["covered_branches"]
        yield Module(place, taken + len(missing), taken, missing)


def table(found: Iterable[Module], missing: bool, each: bool) -> dict[str, tuple[int, int]]:
    """Print folders; with `each`, their modules; with `missing`, the branches not taken."""
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in found:
        rooms[module.path.split("/")[0]].append(module)
    sums = {}
    for word, room in ROOMS.items():
        count = sum(m.branches for m in rooms[room])
        taken = sum(m.taken for m in rooms[room])
        sums[word] = (taken, count)
        print(f"{word:<12} {percent(taken, count):6.2f} %  {taken:>5} of {count:>5} branches  i2s_spec/{room}")
        for module in rooms[room] if each else ():
            print(
                f"    {percent(module.taken, module.branches):6.2f} %  {module.taken:>4} of {module.branches:>4}  "
                f"{module.path}"
            )
            if missing and module.missing:
                print(f"              {', '.join(f'{a}->{max(b, 0)}' for a, b in module.missing)}")
    return sums


def percent(taken: int, count: int) -> float:
    return 100.0 * taken / count if count else 100.0


def outdated() -> list[str]:
    """Entries of `UNREACHABLE` whose module or line no longer exists."""
    found = []
    for module, line, _ in UNREACHABLE:
        path = PACKAGE / module
        lines = (
            [each.partition("  #")[0].strip() for each in path.read_text(encoding="utf-8").splitlines()]
            if path.is_file()
            else []
        )
        if not lines or line not in ("*", *lines):
            found.append(f"{module}: {line}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="list the branches that no input takes")
    parser.add_argument(
        "--floor", type=float, default=FLOOR, help="least percentage of each room (default: %(default)s)"
    )
    parser.add_argument(
        "--harness", action="append", choices=HARNESSES, help="only this one, several times for several"
    )
    parser.add_argument("--no-malformed", action="store_true", help="stop after corpus and regressions")
    given = parser.parse_args()
    if gone := outdated():
        print("\n".join(("UNREACHABLE speaks of lines that are gone:", *gone)), file=sys.stderr)
        return 2
    import coverage

    measured = coverage.Coverage(
        branch=True, data_file=None, config_file=False, source=[str(PACKAGE / room) for room in ROOMS.values()]
    )
    measured.start()
    sys.path.insert(0, str(HERE))
    names = given.harness or HARNESSES
    replay(names)
    measured.stop()
    print("corpus and regressions")
    sums = table(modules(measured), given.missing, True)
    if not given.no_malformed:
        measured.start()
        replay_malformed([name for name in names if name in OF_FILES])
        measured.stop()
        print("\nwith the malformed files of i2s vectors export --malformed")
        table(modules(measured), False, False)
    low = [word for word, (taken, count) in sums.items() if percent(taken, count) < given.floor]
    if low:
        print(f"\nbelow {given.floor:g} %: {', '.join(low)}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
