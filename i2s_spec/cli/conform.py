"""`i2s conform` and `i2s vectors`: other people's decoders on the test vectors, and the vectors as files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.fuzz import size
from i2s_spec.cli.options import INPUT, OUTPUT, call_files, report_place, shown
from i2s_spec.cli.process import Progress, cleaned_up, counting_bar
from i2s_spec.errors import EXIT_FINDINGS, SettingError, counted, quote

if TYPE_CHECKING:
    from i2s_spec.conformance.protocol import VectorCase
    from i2s_spec.conformance.runner import Asker
    from i2s_spec.conformance.score import CaseResult, RunResult
    from i2s_spec.fuzzing.bounded_process import Bounds

#: As `i2s_spec.conformance.report.FORMS`, which is imported where a report is written.
_FORMS = ("text", "ndjson", "markdown", "junit", "html", "shields")


@click.group(
    short_help="Run a decoder in any language on the test vectors.",
    epilog="Example:  i2s conform smoke -- python my_adapter.py",
)
def conform_command() -> None:
    """Run a decoder in any language on the test vectors, and say where it first differs.

    The decoder is reached through an adapter, a program of some 60 lines that reads requests as lines of JSON and answers
    each with one line. The tutorial "Test your decoder in ten minutes" (spec/tutorials/decoder.md) says how to write one;
    tests/peers/adapters has some to begin with, in Python, C, Rust, Go and JavaScript.
    """


def _bounds(timeout: float, memory: int) -> Bounds:
    from i2s_spec.fuzzing.bounded_process import Bounds

    return Bounds(timeout, memory)


def _reports(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = dict[str, str]()
    for text in given:
        form, equals, place = text.partition("=")
        if form not in _FORMS or not equals or not place:
            raise click.BadParameter(
                f"{quote(text)} is not FORM=FILE with a form of {', '.join(_FORMS)}", ctx, parameter
            )
        call_files().write(place)
        found[place] = form
    return found


@conform_command.command(
    "run",
    epilog="Example:  i2s conform run -- python my_adapter.py",
    short_help="Run an adapter on every vector, and compare.",
)
@click.argument("words", nargs=-1, metavar="-- COMMAND...")
@click.option(
    "--simple",
    is_flag=True,
    help="COMMAND reads a GGUF file on its standard input, and writes canonical JSON or ends with a status that is not 0.",
)
@click.option("--ctypes", "library", metavar="LIB:SYMBOL", help="A function of a shared library instead of a COMMAND.")
@click.option("--type", "type_", default="i2_s", show_default=True, metavar="TYPE", help="What that function decodes.")
@click.option("--signature", default="void(u8*,f32*,i64)", show_default=True, metavar="TEXT",
              help="Its parameters: bytes u8*, answer f32* or i8*, elements, or rows and columns.")  # fmt: skip
@click.option("--vectors", type=click.Path(exists=True, file_okay=False), metavar="DIR",
              help="Vectors that `i2s vectors export` wrote. [default: those of this version]")  # fmt: skip
@click.option("--only", multiple=True, metavar="PATTERN", help="Only vectors whose id, op, feature or flag matches.")
@click.option("--skip", multiple=True, metavar="PATTERN", help="No vectors whose id, op, feature or flag matches.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="S",
              help="Time limit for one answer.")  # fmt: skip
@click.option("--run-timeout", type=click.FloatRange(0, min_open=True), default=3600.0, show_default=True, metavar="S",
              help="Time limit for the whole run; vectors that are left count as not run.")  # fmt: skip
@click.option("--memory", type=size, metavar="SIZE", default="1G", show_default=True, help="Limit of resident memory.")
@click.option("--known", type=INPUT, metavar="FILE",
              help="List of failures that are known: exactly these must fail. A missing file is an empty list.")  # fmt: skip
@click.option("--fix", is_flag=True, help="Rewrite the list of --known.")
@click.option(
    "--format", "form", type=click.Choice(_FORMS), default="text", show_default=True, help="Form of the report."
)
@click.option("--report", "reports", multiple=True, metavar="FORM=FILE", callback=_reports,
              help="Write the report to a file as well, in this form.")  # fmt: skip
@click.option("--force", is_flag=True, help="Let reports replace files that are no reports.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def run(
    words: tuple[str, ...],
    simple: bool,
    library: str | None,
    type_: str,
    signature: str,
    vectors: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    timeout: float,
    run_timeout: float,
    memory: int,
    known: str | None,
    fix: bool,
    form: str,
    reports: dict[str, str],
    force: bool,
    quiet: bool,
) -> int:
    """Run COMMAND on every vector, compare its answers, and explain the first difference of each.

    COMMAND is an adapter that speaks the protocol i2s-cp/1, unless --simple or --ctypes say otherwise. It is started
    again after a crash; time, memory and number of processes are bounded. Vectors that need undeclared features are
    skipped, and unknown names of features are ignored: check the number of vectors that were run. `--format ndjson`
    says why each was skipped.

    Exit status: 0 if every vector that was run passed, or failed as the list of --known says; 1 otherwise, and if none
    was run; 2 usage.
    """
    from i2s_spec.conformance import score
    from i2s_spec.conformance.protocol import AdapterFault, require_program
    from i2s_spec.conformance.report import FORMS
    from i2s_spec.conformance.runner import run_cases

    if fix and (only or skip):
        raise click.UsageError("--fix writes the whole list; it cannot be combined with --only or --skip")
    if fix and known is None:
        raise click.UsageError("--fix needs the list's name: --known FILE")
    for place in reports:
        report_place(place, force)
    listed = score.read_list(known) if known is not None else {}
    asker = _asker(words, simple, library, type_, signature, _bounds(timeout, memory))
    if library is None:
        try:
            require_program(words)
        except AdapterFault as fault:
            raise SettingError(str(fault)) from None
    with cleaned_up(), _folder(vectors) as folder:
        from i2s_spec.conformance.protocol import read_cases

        suite = read_cases(folder)
        for pattern in only:
            if not suite.chosen([pattern]):
                raise click.UsageError(_no_match(pattern, suite.cases))
        cases = suite.chosen(only, skip)
        if not cases:
            raise click.UsageError("no vector is left of those that --only names, after those that --skip names")
        try:
            with counting_bar("asking", len(cases), quiet, forks=True) as bar:
                done = run_cases(asker, cases, suite.version, words, _with_failures(bar), run_timeout)
        except AdapterFault as fault:
            click.echo(f"i2s: {fault}", err=True)
            return EXIT_FINDINGS
    if known is not None and fix:
        count = score.write_list(done, known)
        click.echo(f"{shown(known)}: {counted(count, 'known failure')}", err=True)
        listed = score.read_list(known)
    if known is not None:
        score.apply(done, listed, whole=not only and not skip)
    _write(reports, [done])
    click.echo(FORMS[form]([done]), nl=False)
    return 0 if done.ok else EXIT_FINDINGS


@conform_command.command(
    epilog="Example:  i2s conform smoke -- python my_adapter.py",
    short_help="Test three basic properties of a new adapter.",
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, metavar="S",
              help="Time limit for one answer.")  # fmt: skip
@click.option("--memory", type=size, metavar="SIZE", default="1G", show_default=True, help="Limit of resident memory.")
def smoke(words: tuple[str, ...], timeout: float, memory: int) -> int:
    """Report in three sentences whether an adapter answers, reads bits in the right order, and finds the scale."""
    from i2s_spec.conformance.runner import smoke as asked

    failed = False
    with cleaned_up():
        for sentence in asked(words, _bounds(timeout, memory)):
            click.echo(quote(sentence.text, limit=1000, bare=True))
            failed = failed or sentence.well is False
    return EXIT_FINDINGS if failed else 0


@conform_command.command(
    epilog="Example:  i2s conform report --format html a.ndjson b.ndjson", short_help="Merge records of runs."
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(_FORMS), default="text", show_default=True, help="Form of the report."
)
def report(files: tuple[str, ...], form: str) -> None:
    """Show records of runs, which `--report ndjson=FILE` writes, in another form; several make a matrix."""
    from i2s_spec.conformance.report import FORMS, read_ndjson

    click.echo(FORMS[form]([read_ndjson(file) for file in files]), nl=False)


def _no_match(pattern: str, cases: Sequence[VectorCase]) -> str:
    """Say that a pattern of --only matches nothing, and name the words that would."""
    ops, features = {case.op for case in cases}, {feature for case in cases for feature in case.features}
    several = "; give --only once for each word" if "," in pattern else ""
    return (
        f"no vector matches {quote(pattern)}{several}. A pattern is an id such as {cases[0].id}, an operation "
        f"({', '.join(sorted(ops))}), a feature ({', '.join(sorted(features))}), or a flag, as `i2s vectors list` takes"
        if cases
        else "there is no vector"
    )


def _asker(
    words: tuple[str, ...], simple: bool, library: str | None, type_: str, signature: str, bounds: Bounds
) -> Asker:
    from i2s_spec.conformance import protocol
    from i2s_spec.conformance.runner import ProtocolAsker, SimpleAsker

    if (library is not None) == bool(words) or (simple and library is not None):
        raise click.UsageError(
            "name one adapter: a command after `--`, with or without --simple, or --ctypes LIB:SYMBOL"
        )
    if library is None:
        return SimpleAsker(words, bounds) if simple else ProtocolAsker(words, bounds)
    path, colon, symbol = library.rpartition(":")
    if not colon or not path or not symbol:
        raise click.UsageError(f"{quote(library)} is not LIB:SYMBOL")
    try:
        protocol.parse_signature(signature)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    full = str(Path(path).resolve()) if "/" in path or Path(path).is_file() else path
    return ProtocolAsker([sys.executable, "-m", protocol.__name__, full, symbol, type_, signature], bounds)


@contextmanager
def _folder(vectors: str | None) -> Iterator[Path]:
    """Provide the folder of vectors, written for this run where none is given."""
    if vectors is not None:
        yield Path(vectors)
        return
    from i2s_spec.conformance.vectors.all_vectors import write_suite

    with tempfile.TemporaryDirectory(prefix="i2s-vectors-") as folder:
        write_suite(folder)
        yield Path(folder)


def _write(reports: dict[str, str], runs: list[RunResult]) -> None:
    from i2s_spec.conformance.report import FORMS
    from i2s_spec.gguf.atomic_file import OutputFile

    for place, form in reports.items():
        try:
            with OutputFile(place, force=True) as output:
                output.write(FORMS[form](runs).encode("utf-8"))
        except OSError as error:
            raise SettingError(f"{shown(place)}: {error.strerror}") from None


def _with_failures(bar: Progress | None) -> Callable[[int, CaseResult], None]:
    """Return what moves a bar by a result, with the number of failures behind it."""
    failed = 0

    def advance(count: int, result: CaseResult) -> None:
        nonlocal failed
        failed += result.status.value in ("fail", "errored", "not run")
        if bar is not None:
            bar(count, remark=f"{failed} failed" if failed else "")

    return advance


# --- vectors ---------------------------------------------------------------------------------------------------------
# Files for other people's test suites, the mutants that prove them, and packages of them.


@click.group(
    short_help="Write test vectors for other decoders.",
    epilog="Example:  i2s vectors export suite",
)
def vectors_command() -> None:
    """Write test vectors and malformed files for other test suites, each with the expected answer."""


@vectors_command.command(epilog="Example:  i2s vectors export suite")
@click.argument("folder", required=False, type=OUTPUT, metavar="DIR")
@click.option("--malformed", "target", type=OUTPUT, metavar="DIR",
              help="Write all malformed files, whole models too, to the folder DIR instead.")  # fmt: skip
@click.option(
    "--huge", is_flag=True, help="With --malformed: also write files above 4 MiB, which are otherwise only described."
)
@click.option(
    "--no-i2s", is_flag=True, help="With --malformed: F32 tensors instead of I2_S, for readers without type 36."
)
@click.option("--force", is_flag=True, help="Replace a suite that is in DIR, or files of the same names.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def export(folder: str | None, target: str | None, huge: bool, no_i2s: bool, force: bool, quiet: bool) -> None:
    """Write the test vectors to the folder DIR, which is new or empty.

    manifest.json lists them: what a decoder is given, what it has to answer, how that is compared, and which bugs a vector
    finds. INTERPRETING.md explains every field; files/ has each vector as one file that needs no JSON. The same version
    writes the same bytes each time. The vectors are under 0BSD.

    With --malformed DIR, write instead one file for each fault that the rules know, and a manifest. For each file it
    gives the rule and clause, the wrong field, the step at which a reader can know it, the kind of program that should
    reject it (one that reads headers, tensors, or models), and the programs on record that do. With --no-i2s the files
    have F32 tensors, and faults of I2_S tensors are left out.
    """
    if (folder is None) == (target is None):
        raise click.UsageError("name one folder: i2s vectors export DIR, or i2s vectors export --malformed DIR")
    if folder is not None:
        if huge or no_i2s:
            raise click.UsageError(f"{'--huge' if huge else '--no-i2s'} applies only with --malformed")
        _export_suite(folder, force, quiet)
    elif target is not None:
        _export_malformed(target, huge, not no_i2s, force, quiet)


def _export_suite(target: str, force: bool, quiet: bool) -> None:
    from i2s_spec.conformance.vectors.all_vectors import write_suite

    try:
        done = write_suite(target, force=force)
    except FileExistsError as error:
        raise click.UsageError(f"{shown(target)}: {str(error.strerror).replace('force', '--force')}") from None
    if not quiet:
        size = counted(done.size, "byte")
        click.echo(f"{shown(target)}: {counted(done.vectors, 'vector')}, {counted(done.files, 'file')}, {size}")


def _export_malformed(target: str, huge: bool, i2s: bool, force: bool, quiet: bool) -> None:
    from i2s_spec.conformance.malformed_suite import export as write

    try:
        with counting_bar("writing", None, quiet) as progress:
            done = write(target, huge=huge, force=force, i2s=i2s, progress=progress)
    except FileExistsError as error:
        raise click.UsageError(f"{shown(target)}: {str(error.strerror).replace('force', '--force')}") from None
    if not quiet:
        more = f", {done.described} larger ones described" if done.described else ""
        left = (
            f", {counted(done.left_out, 'fault needs', 'faults need')} I2_S and are left out" if done.left_out else ""
        )
        click.echo(
            f"{shown(target)}: {counted(done.written, 'malformed file')}{more}, {done.sound} sound ones, "
            f"{counted(done.size, 'byte')}{left}"
        )


@vectors_command.command(name="list", epilog="Example:  i2s vectors list --flag scale-as-f16")
@click.option("--op", metavar="OP", help="Only vectors of an operation.")
@click.option("--flag", metavar="FLAG", help="Only vectors that find a kind of bug.")
def list_vectors(op: str | None, flag: str | None) -> None:
    """List the vectors: id, operation, verdict, comment."""
    from i2s_spec.conformance.explanations import FLAGS
    from i2s_spec.conformance.protocol_terms import OPERATIONS
    from i2s_spec.conformance.vectors import suite

    for value, known, what in ((op, OPERATIONS, "operation"), (flag, FLAGS, "flag")):
        if value is not None and value not in known:
            raise SettingError(f"no {what} is called {quote(value)}; there are {', '.join(sorted(known))}")
    for vector in suite():
        if op in (None, vector.op) and (flag is None or flag in vector.flags):
            click.echo(f"{vector.id}  {vector.op:10} {vector.verdict:8} {vector.comment}")


@vectors_command.command(epilog="Example:  i2s vectors mutants")
@click.option("--all", "every", is_flag=True, help="List every mutant, not only those that survive.")
@click.pass_context
def mutants(ctx: click.Context, every: bool) -> None:
    """Test the vectors: each decoder with one known bug must fail a vector whose flag names the bug.

    The table has a line for each mutant: its name, its flag, how many vectors it fails, how many of them name the bug, and
    the first of these. The exit code is 1 where a mutant survives. The mutants are in tests/mutants of a checkout.
    """
    from i2s_spec.conformance.explanations import NOT_IN_MODELS
    from i2s_spec.conformance.vectors import suite

    kill, vectors = _mutants(), suite()
    killed = kill.results(vectors)
    width = max(len(each.name) for each in killed)
    for each in killed:
        if every or not each.named:
            first = each.named[0].id if each.named else "survives"
            click.echo(f"{each.name:{width}}  {each.flag:{width}}  {len(each.failed):4}  {len(each.named):4}  {first}")
    survivors = sum(not each.named for each in killed)
    click.echo(
        f"{counted(len(killed), 'mutant')}, {survivors} survive; "
        f"{counted(len(kill.right_failures(vectors)), 'vector fails', 'vectors fail')} the plain decoder"
    )
    for vector in kill.unused(vectors, killed):
        click.echo(f"{vector.id} fails no mutant: {vector.comment}")
    for name, why in NOT_IN_MODELS.items():
        click.echo(f"{name} is not among the mutants: {why}")
    ctx.exit(1 if survivors else 0)


def _mutants() -> Any:
    """Return the module that runs the mutants, which is in a checkout and not in the installed package.

    :raises SettingError: if the package does not lie in a checkout
    """
    folder = Path(__file__).resolve().parents[2] / "tests" / "mutants"
    spec = util.spec_from_file_location("mutants", folder / "__init__.py", submodule_search_locations=[str(folder)])
    if not (folder / "__init__.py").is_file() or spec is None or spec.loader is None:
        raise SettingError(
            "the mutants are not part of the installed package: clone the repository, and run this again after "
            "`pip install -e .` in the clone"
        )
    if "mutants" not in sys.modules:
        sys.modules["mutants"] = module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return import_module("mutants.kill")


@vectors_command.command(epilog="Example:  i2s vectors package wheel --for pypi")
@click.argument("folder", type=OUTPUT, metavar="DIR")
@click.option("--for", "registry", required=True, type=click.Choice(["pypi", "npm", "go", "cargo", "tar"]),
              help="The registry of the package; tar writes the tarball that all packages are made from.")  # fmt: skip
def package(folder: str, registry: str) -> None:
    """Write the vectors as the source folder of a package; the registry's own tool makes the upload from it."""
    from i2s_spec.conformance.packages import digest, tarball, write_package
    from i2s_spec.gguf.atomic_file import OutputFile

    if registry == "tar":
        data = tarball()
        try:
            with OutputFile(folder) as output:
                output.write(data)
        except FileExistsError:
            raise click.UsageError(f"{shown(folder)}: this exists") from None
        click.echo(f"{shown(folder)}: {counted(len(data), 'byte')}, sha256 {digest(data)}")
        return
    try:
        count = write_package(folder, registry)
    except FileExistsError as error:
        raise click.UsageError(f"{shown(folder)}: {error.strerror}") from None
    click.echo(f"{shown(folder)}: {counted(count, 'file')} for {registry}")


@vectors_command.command(epilog="Example:  i2s vectors register        (in a checkout)")
def register() -> None:
    """Give new vectors their ids (in a checkout); published ids never change, those of removed vectors are retired."""
    from i2s_spec.conformance.vectors import vector as ledger
    from i2s_spec.gguf.atomic_file import OutputFile

    before = len(ledger.read())
    try:
        lines = _mutants().registered()
    except ValueError as error:
        raise SettingError(str(error)) from None
    with OutputFile(ledger.LEDGER, force=True) as output:
        output.write(ledger.text(lines).encode("ascii"))
    click.echo(f"{counted(len(lines), 'vector')} in the ledger, {len(lines) - before} new")
