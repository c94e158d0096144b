"""The command line: `python -m runs` lists programs, `install` installs them, `make` runs them and writes the records."""

from __future__ import annotations

import argparse
import sys

from runs.programs import PROGRAM, PROGRAMS


def main() -> int:
    """Run the command line; the exit status is 1 where a program could not be installed."""
    parser = argparse.ArgumentParser(prog="python -m runs", description=__doc__)
    parser.add_argument("action", nargs="?", choices=["list", "install", "make"], default="list")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all of them unless some are named")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PROGRAM]
    if unknown:
        parser.error(f"unknown program {unknown[0]!r}; there are {', '.join(PROGRAM)}")
    if options.action == "make":
        return _make(options.names)
    failed = False
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        reason = program.install() if options.action == "install" else program.missing()
        failed = failed or (options.action == "install" and reason is not None)
        print(f"{program.name} {program.version}: {reason or 'installed'}")
    return int(failed)


def _make(names: list[str]) -> int:
    """Write new records; programs that are not installed keep theirs."""
    from i2s_spec.linter.runtimes.run_records import RECORDS_FILE
    from runs.record import as_text, make_records

    about, reasons = make_records(names, lambda line: print(line, file=sys.stderr))
    RECORDS_FILE.write_text(as_text(about), encoding="utf-8")
    print(f"{len(about['records'])} records of {len(about['files'])} files in {RECORDS_FILE.name}")
    for reason in reasons:
        print(f"kept from before: {reason}")
    return int(bool(reasons))


if __name__ == "__main__":
    sys.exit(main())
