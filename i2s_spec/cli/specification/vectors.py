"""`i2s vectors`: files for other people's test suites, the mutants that prove them, and packages of them."""

from __future__ import annotations

import sys
from importlib import import_module, util
from pathlib import Path
from typing import Any

import click

from i2s_spec.errors import SettingError, counted, quote


@click.group(
    short_help="Write test vectors for other decoders.",
    epilog="Example:  i2s vectors export suite",
)
def command() -> None:
    """Write test vectors and malformed files for other test suites, each with the expected answer."""


@command.command(epilog="Example:  i2s vectors export suite")
@click.argument("folder", required=False, type=click.Path(readable=False), metavar="DIR")
@click.option("--malformed", "target", type=click.Path(readable=False), metavar="DIR",
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
    gives the rule and clause, the wrong field, the step at which a reader must have rejected it, and which programs
    must: those that read headers, tensors, or models. With --no-i2s the files have F32 tensors, and faults of I2_S
    tensors are left out.
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
    from i2s_spec.conformance.vectors.write_suite import write_suite

    shown = quote(target, limit=4096, bare=True)
    try:
        done = write_suite(target, force=force)
    except FileExistsError as error:
        raise click.UsageError(f"{shown}: {str(error.strerror).replace('force', '--force')}") from None
    if not quiet:
        click.echo(
            f"{shown}: {counted(done.vectors, 'vector')}, {counted(done.files, 'file')}, {counted(done.size, 'byte')}"
        )


def _export_malformed(target: str, huge: bool, i2s: bool, force: bool, quiet: bool) -> None:
    from i2s_spec.conformance.export import export as write

    shown = quote(target, limit=4096, bare=True)
    try:
        if quiet or not sys.stderr.isatty():
            done = write(target, huge=huge, force=force, i2s=i2s)
        else:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("writing"), BarColumn(), MofNCompleteColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=None)
                done = write(target, huge=huge, force=force, i2s=i2s,
                             progress=lambda count, total: bar.update(task, completed=count, total=total))  # fmt: skip
    except FileExistsError as error:
        raise click.UsageError(f"{shown}: {str(error.strerror).replace('force', '--force')}") from None
    if not quiet:
        more = f", {done.described} larger ones described" if done.described else ""
        left = (
            f", {counted(done.left_out, 'fault needs', 'faults need')} I2_S and are left out" if done.left_out else ""
        )
        click.echo(
            f"{shown}: {counted(done.written, 'malformed file')}{more}, {done.sound} sound ones, "
            f"{counted(done.size, 'byte')}{left}"
        )


@command.command(name="list", epilog="Example:  i2s vectors list --flag scale-as-f16")
@click.option("--op", metavar="OP", help="Only vectors of an operation.")
@click.option("--flag", metavar="FLAG", help="Only vectors that find a kind of bug.")
def list_vectors(op: str | None, flag: str | None) -> None:
    """List the vectors: id, operation, verdict, comment."""
    from i2s_spec.conformance.vectors import suite
    from i2s_spec.conformance.vectors.bug_flags import FLAGS
    from i2s_spec.conformance.vectors.vector import OPS

    for value, known, what in ((op, OPS, "operation"), (flag, FLAGS, "flag")):
        if value is not None and value not in known:
            raise SettingError(f"no {what} is called {quote(value)}; there are {', '.join(sorted(known))}")
    for vector in suite():
        if op in (None, vector.op) and (flag is None or flag in vector.flags):
            click.echo(f"{vector.id}  {vector.op:10} {vector.verdict:8} {vector.comment}")


@command.command(epilog="Example:  i2s vectors mutants")
@click.option("--all", "every", is_flag=True, help="List every mutant, not only those that survive.")
@click.pass_context
def mutants(ctx: click.Context, every: bool) -> None:
    """Test the vectors: each decoder with one known bug must fail a vector whose flag names the bug.

    The table has a line for each mutant: its name, its flag, how many vectors it fails, how many of them name the bug, and
    the first of these. The exit code is 1 where a mutant survives. The mutants are in tests/mutants of a checkout.
    """
    from i2s_spec.conformance.vectors import suite
    from i2s_spec.conformance.vectors.bug_flags import NOT_IN_MODELS

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
    """The module that runs the mutants, which is in a checkout and not in the installed package.

    :raises SettingError: if the package does not lie in a checkout
    """
    folder = Path(__file__).resolve().parents[3] / "tests" / "mutants"
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


@command.command(epilog="Example:  i2s vectors package wheel --for pypi")
@click.argument("folder", type=click.Path(readable=False), metavar="DIR")
@click.option("--for", "registry", required=True, type=click.Choice(["pypi", "npm", "go", "cargo", "tar"]),
              help="The registry of the package; tar writes the tarball that all packages are made from.")  # fmt: skip
def package(folder: str, registry: str) -> None:
    """Write the vectors as the source folder of a package; the registry's own tool makes the upload from it."""
    from i2s_spec.conformance.registry_packages import digest, tarball, write_package
    from i2s_spec.gguf.atomic_file import OutputFile

    shown = quote(folder, limit=4096, bare=True)
    if registry == "tar":
        data = tarball()
        try:
            with OutputFile(folder) as output:
                output.write(data)
        except FileExistsError:
            raise click.UsageError(f"{shown}: this exists") from None
        click.echo(f"{shown}: {counted(len(data), 'byte')}, sha256 {digest(data)}")
        return
    try:
        count = write_package(folder, registry)
    except FileExistsError as error:
        raise click.UsageError(f"{shown}: {error.strerror}") from None
    click.echo(f"{shown}: {counted(count, 'file')} for {registry}")


@command.command(epilog="Example:  i2s vectors register        (in a checkout)")
def register() -> None:
    """Give new vectors their ids (in a checkout); published ids never change, those of removed vectors are retired."""
    from i2s_spec.conformance.vectors import ledger
    from i2s_spec.gguf.atomic_file import OutputFile

    before = len(ledger.read())
    try:
        lines = _mutants().registered()
    except ValueError as error:
        raise SettingError(str(error)) from None
    with OutputFile(ledger.LEDGER, force=True) as output:
        output.write(ledger.text(lines).encode("ascii"))
    click.echo(f"{counted(len(lines), 'vector')} in the ledger, {len(lines) - before} new")
