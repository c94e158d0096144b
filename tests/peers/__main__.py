"""Run other people's programs on our files, and write the table of what they did: `python tests/peers`, in a checkout.

python tests/peers                     programs and adapters, and whether they are installed
python tests/peers install [NAME...]   install programs of PyPI and npm
python tests/peers runs [NAME...]      run programs on the small files
python tests/peers vectors [NAME...]   run implementations on the test vectors
python tests/peers add FILE[+FILE]...  a row for the records that `i2s conform run --report ndjson=FILE` writes
python tests/peers table ...           the table of what llama.cpp asks of each architecture, from its sources
python tests/peers matrix ...          what lint finds of what llama.cpp refuses, by kind of damage and architecture
python tests/peers sound ...           what lint finds in files of llama.cpp's converter and quantiser
python tests/peers exports ...         which languages and tools read files by the exports
python tests/peers change IN OUT NAME    a copy with a feature more; quantise IN OUT TYPE: by llama.cpp's library
python tests/peers cuda ...            whether the exported kernels in CUDA C are right, on a GPU, and how fast
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import cuda, exports, matrix, sound
from peers.arch_tables import command as table
from peers.implementations import MissingError, implementations
from peers.programs import PROGRAM, PROGRAMS

#: Actions with arguments of their own, each a module with `add_arguments` and `run`.
COMMANDS = {"table": table, "matrix": matrix, "sound": sound, "exports": exports, "cuda": cuda}

IMPLEMENTATION = {each.name: each for each in implementations()}


def main() -> int:
    """Run the command line; the exit status is 1 where something could not be installed or run."""
    parser = argparse.ArgumentParser(
        prog="python tests/peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action")
    for action in ("list", "install", "runs", "vectors", "add"):
        what = "files" if action == "add" else "programs or implementations; all unless some are named"
        actions.add_parser(action).add_argument("names", nargs="*", metavar="NAME", help=what)
    for action, command in COMMANDS.items():
        command.add_arguments(
            actions.add_parser(action, description=command.__doc__, formatter_class=parser.formatter_class)
        )
    for action in ("change", "quantise"):
        actions.add_parser(action).add_argument("words", nargs=3, metavar="IN OUT NAME")
    options = parser.parse_args(sys.argv[1:] or ["list"])
    if options.action in COMMANDS:
        return COMMANDS[options.action].run(options)
    if options.action in ("change", "quantise"):
        from peers.small_files import of_peers

        of_peers([options.action, *options.words])
        return 0
    known = {
        "list": {**PROGRAM, **IMPLEMENTATION}, "install": PROGRAM, "runs": {each.name for each in PROGRAMS},
        "vectors": IMPLEMENTATION, "add": options.names,
    }[options.action]  # fmt: skip
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"unknown name {unknown[0]!r}; there are {', '.join(known)}")
    do = {"list": _list, "install": _install, "runs": _runs, "vectors": _vectors, "add": _add}[options.action]
    return do(options.names)


def _list(names: list[str]) -> int:
    for name, program in PROGRAM.items():
        if not names or name in names:
            print(f"{name} {program.version}: {program.missing() or 'installed'}")
    with tempfile.TemporaryDirectory(prefix="i2s-adapters-") as folder:
        for name, each in IMPLEMENTATION.items():
            if not names or name in names:
                try:
                    each.command(Path(folder))
                    print(f"adapter {name}: can be run")
                except MissingError as reason:
                    print(f"adapter {name}: {reason}")
    return 0


def _install(names: list[str]) -> int:
    """Install programs; this imports nothing of the package, which may not be built yet."""
    reasons = {name: program.install() for name, program in PROGRAM.items() if not names or name in names}
    for name, reason in reasons.items():
        print(f"{name} {PROGRAM[name].version}: {reason or 'installed'}")
    return int(any(reasons.values()))


def _runs(names: list[str]) -> int:
    """Write new records of programs on small files; programs that are not installed keep theirs."""
    from peers.records import make_records, write_table

    about, reasons = make_records(names, lambda line: print(line, file=sys.stderr))
    write_table(about)
    print(f"{len(about['records'])} records of {len(about['files'])} files")
    for reason in reasons:
        print(f"kept from before: {reason}")
    return int(bool(reasons))


def _vectors(names: list[str]) -> int:
    """Write new rows of implementations on the vectors; those that cannot be run keep theirs."""
    from i2s_spec.conformance.protocol import AdapterFault, read_cases
    from i2s_spec.conformance.report import summary
    from i2s_spec.conformance.vectors.all_vectors import write_suite
    from peers.decoders import put, row, run_on

    missing = 0
    with tempfile.TemporaryDirectory(prefix="i2s-vectors-") as place:
        folder = Path(place)
        write_suite(folder / "vectors")
        suite = read_cases(folder / "vectors")
        for name, each in IMPLEMENTATION.items():
            if names and name not in names:
                continue
            try:
                run = run_on(each.command(folder), suite)
            except (MissingError, AdapterFault) as reason:
                missing += 1
                print(f"{name}: kept from before: {reason}")
                continue
            put([row(name, run)])
            print(summary(run), flush=True)
    return int(bool(missing))


def _add(names: list[str]) -> int:
    from peers.decoders import from_records, put

    put([from_records([Path(each) for each in name.split("+")]) for name in names])
    return 0


if __name__ == "__main__":
    sys.exit(main())
