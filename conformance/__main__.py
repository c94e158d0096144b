"""The command line: `python -m conformance` lists implementations, `install` installs those of PyPI, `make` runs them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from conformance.implementations import READERS, RESULTS, Implementation, MissingError, implementations

#: Limits for one answer, in seconds (processors may be busy) and in resident bytes.
SECONDS, MEMORY = 20.0, 2 << 30


def main() -> int:
    """Run the command line; the exit status is 1 where something could not be installed or run."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("action", nargs="?", choices=["list", "install", "make"], default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="implementations; all of them unless some are named")
    options = parser.parse_args()
    known = {each.name: each for each in implementations()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"unknown implementation {unknown[0]!r}; there are {', '.join(known)}")
    if options.action == "install":
        reasons = {name: program.install() for name, program in READERS.items()}
        for name, reason in reasons.items():
            print(f"{name} {READERS[name].version}: {reason or 'installed'}")
        return int(any(reasons.values()))
    chosen = [each for name, each in known.items() if not options.names or name in options.names]
    missing = 0
    with tempfile.TemporaryDirectory(prefix="i2s-conformance-") as folder:
        if options.action == "make":  # installing needs nothing of this package
            from i2s_spec.conformance.vectors.write_suite import write_suite

            write_suite(Path(folder) / "vectors")
        for each in chosen:
            try:
                print(
                    _made(each, Path(folder))
                    if options.action == "make"
                    else f"{each.name}: {_listed(each, Path(folder))}"
                )
            except MissingError as reason:
                missing += 1
                print(f"{each.name}: not run: {reason}")
    return int(bool(missing) and options.action == "make")


def _listed(each: Implementation, folder: Path) -> str:
    each.command(folder)
    return "can be run"


def _made(each: Implementation, folder: Path) -> str:
    """Run an implementation on every vector, and write its record."""
    from i2s_spec.conformance.run.askers import ProtocolAsker
    from i2s_spec.conformance.run.cases import read_cases
    from i2s_spec.conformance.run.report.ndjson import ndjson
    from i2s_spec.conformance.run.report.plain_text import summary
    from i2s_spec.conformance.run.runner import run_cases
    from i2s_spec.fuzzing.child import Bounds

    suite = read_cases(folder / "vectors")
    run = run_cases(ProtocolAsker(each.command(folder), Bounds(SECONDS, MEMORY)), suite.cases, suite.version)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{each.name}.ndjson").write_text(ndjson(run), encoding="utf-8")
    return summary(run)


if __name__ == "__main__":
    sys.exit(main())
