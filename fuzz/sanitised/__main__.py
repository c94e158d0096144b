"""The compiled extensions under sanitizers and under valgrind: `python fuzz/sanitised [run | valgrind]`, in a checkout.

`run` builds all extensions with AddressSanitizer and UndefinedBehaviorSanitizer in a separate folder, checks that
injected faults are detected, and replays the stored inputs of the harnesses, the malformed files and the property tests:
parsing once, computing with each set of kernels that the processor supports (`passes` has the exceptions). `valgrind`
runs the installed scanner under memcheck, which detects uses of uninitialized bytes, which the sanitizers do not.

Exit codes: 0 no fault; 1 a fault; 2 it cannot run here, with the reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import canaries
import memcheck
import passes
from extensions import BuildError, build


def main(arguments: list[str] | None = None) -> int:
    """Run the requested command."""
    asked = _parser().parse_args(arguments)
    with _folder(asked.folder) as folder:
        try:
            return _run(asked, folder) if asked.what == "run" else memcheck.run(folder)
        except BuildError as error:
            print(f"sanitised: {error}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python fuzz/sanitised", description=__doc__.partition("\n\n")[0])
    parser.add_argument("what", nargs="?", choices=["run", "valgrind"], default="run")
    parser.add_argument("--isa", action="append", metavar="NAME", help="only this set of kernels; may be repeated")
    parser.add_argument("--more", action="store_true", help="all tests that reach the extensions, not CI's choice")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="build here and keep it (default: temporary)")
    parser.add_argument("--no-isolation", action="store_true", help="build with the setuptools and Cython of here")
    return parser


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="i2s-sanitised-") as made:
        yield Path(made).resolve()


def _run(asked: argparse.Namespace, folder: Path) -> int:
    from i2s_spec.codec.isa import kernel_sets, names

    sets = {each.name: dict(names())[each.name] for each in kernel_sets()}
    unknown = [name for name in asked.isa or () if name not in sets]
    if unknown:
        raise BuildError(f"there is no set {unknown[0]}; there are {', '.join(sets)}")
    wanted = [name for name in sets if name in (asked.isa or sets)]
    for name in wanted:
        if not sets[name]:
            print(f"{name}: skipped: this processor cannot run it")

    print("building", file=sys.stderr)
    project = build(folder, isolated=not asked.no_isolation)
    print("faults on purpose", file=sys.stderr)
    lines = canaries.unnoticed(project, folder)
    if lines:
        print("faults on purpose went unnoticed:", *lines, sep="\n")
        return 1
    print(f"faults on purpose: all {len(canaries.FAULTS) - 1} were noticed", flush=True)

    good = True
    for outcome in passes.run_all(
        list(passes.planned([name for name in wanted if sets[name]], asked.more)), project, folder, asked.more
    ):
        good &= outcome.passed
        print(f"{outcome.name}: {outcome.summary} ({outcome.seconds:.0f} s)", outcome.details, sep="\n", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
