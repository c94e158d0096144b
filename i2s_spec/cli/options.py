"""Options and arguments that verbs share, and the checks that go with them.

form_option      `--format` of verbs that answer in several forms, with `--json` as its short form
remote_options   which networks may be asked, and the budget of a file, for verbs that read addresses
INPUT, OUTPUT    types of the paths that a call reads and writes: no output is an input (`CallFiles`)
whole_file, out_argument, writing, reading, report_place    which file is written, and whether it may be replaced
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce, wraps
from typing import Any, Final, TypeVar, cast

import click

from i2s_spec.cli.process import cleaned_up
from i2s_spec.draw.text import encodable, fault_words, json_document, json_string, visible
from i2s_spec.errors import EXIT_FINDINGS, FormatError, quote
from i2s_spec.schema import faults

Verb = TypeVar("Verb", bound=Callable[..., Any])
Command = Callable[..., Any]


def form_option(
    forms: Sequence[str], default: str | None = "text", help: str | None = None, schema: str = ""
) -> Callable[[Verb], Verb]:
    """Add `--format FORM` and `--json`, of which the verb gets one parameter `form`; where both are given, JSON it is.

    :param forms: what `--format` takes; `json` is among them
    :param default: the form without either; None leaves it to the verb
    :param schema: the name of the JSON Schema of the answer, for the help text
    """

    def decorate(verb: Verb) -> Verb:
        @wraps(verb)
        def in_one_form(*arguments: Any, as_json: bool, **given: Any) -> Any:
            if as_json:
                given["form"] = "json"
            return verb(*arguments, **given)

        of = f" ({schema})" if schema else ""
        short = click.option("--json", "as_json", is_flag=True, help=f"The same as --format json{of}.")
        shown = default is not None
        full = click.option(
            "--format", "form", type=click.Choice(forms), default=default, show_default=shown, help=help
        )
        decorated: Verb = cast("Verb", full(short(in_one_form)))
        return decorated

    return decorate


def threads_option(help: str = "Threads that decode. [default: one for each processor]") -> Callable[[Verb], Verb]:
    """Return the option `--threads`, whose value is the number of processors where it is not given."""
    return click.option("--threads", type=click.IntRange(1), metavar="N", help=help, callback=_one_for_each_processor)


def _one_for_each_processor(ctx: click.Context, parameter: click.Parameter, threads: int | None) -> int:
    return threads or os.cpu_count() or 1


# --- values that click leaves as text --------------------------------------------------------------------------------


def words(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> tuple[str, ...]:
    """Split values of an option that may be given many times, and hold many words with commas between them."""
    return tuple(word for value in values for word in value.split(",") if word)


def pairs_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Parse values of the form NAME=VALUE into a table; of two for one name the last one counts."""
    pairs = {}
    for word in words(ctx, parameter, values):
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise click.BadParameter(f"{quote(word)} is not of the form {parameter.metavar}", ctx, parameter)
        pairs[name] = value
    return pairs


def limits_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, int]:
    """Parse values of the form NAME=NUMBER into a table."""
    limits = {}
    for name, value in pairs_of(ctx, parameter, values).items():
        try:
            limits[name] = int(value) if len(value) <= 20 else -1
        except ValueError:
            limits[name] = -1
        if limits[name] < 0:
            raise click.BadParameter(f"{quote(value)} is not a number", ctx, parameter)
    return limits


# --- networks and budgets --------------------------------------------------------------------------------------------


def remote_options(command: Command) -> Command:
    """Add `--allow-private` and `--remote-limit` to a verb; they hold for as long as it runs, and are no arguments of it."""
    options = (
        click.option(
            "--allow-private",
            is_flag=True,
            expose_value=False,
            callback=_allow,
            envvar="I2S_ALLOW_PRIVATE",
            help="Addresses may lead to private and local networks.",
        ),
        click.option(
            "--remote-limit",
            multiple=True,
            metavar="NAME=N",
            expose_value=False,
            callback=_limit,
            envvar="I2S_REMOTE_LIMIT",
            help="Budget of a file on a server: bytes, requests, seconds, timeout, wait, sample.",
        ),
    )
    return reduce(lambda made, option: option(made), reversed(options), command)


def _allow(ctx: click.Context, parameter: click.Parameter, allowed: bool) -> None:
    if allowed:
        from i2s_spec.remote.policy import current, using

        ctx.with_resource(using(current()._replace(private=True)))


def _limit(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    if not values:
        return
    from i2s_spec.remote.policy import current, using, with_numbers

    try:
        ctx.with_resource(using(with_numbers(current(), limits_of(ctx, parameter, values))))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


# --- files that are read and written ---------------------------------------------------------------------------------
# Which file, whether it may be replaced, and what is said if it may not.


def shown(path: str) -> str:
    """Return a path as it may be printed, whole."""
    return visible(path, limit=4096, bare=True)


class CallFiles:
    """What one call reads and writes. No output is an input under any name of it, also where files may be replaced, and no
    two outputs are one file: nobody means to lose a model, or what it was made from, to a report on it.

    Parameters of the types `INPUT` and `OUTPUT` enter themselves; what a call only learns later is entered by the verb.
    """

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._outputs: list[str] = []

    def read(self, *paths: str | None) -> None:
        """Enter files to read; of a folder, also those that lie in it.

        :raises click.UsageError: where one of them is an output
        """
        for path in paths:
            if path is not None:
                for target in self._outputs:
                    _refuse_input(target, path)
                self._inputs.append(path)

    def write(self, target: str | None) -> None:
        """Enter a file to write; None and `-` are none.

        :raises click.UsageError: where it is an input or another output
        """
        if target in (None, "-"):
            return
        for path in self._inputs:
            _refuse_input(target, path)
        for other in self._outputs:
            if _one_name(target) == _one_name(other):
                raise click.UsageError(f"{shown(target)} is the name of two outputs; each needs its own")
        self._outputs.append(target)

    @property
    def replaces(self) -> bool:
        """Whether there is a file under the name of an output."""
        return any(map(os.path.exists, self._outputs))


def call_files() -> CallFiles:
    """Return the files of the current call."""
    found: CallFiles = click.get_current_context().meta.setdefault(f"{__name__}.files", CallFiles())
    return found


class _InputPath(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.startswith("ollama:"):
            value = _of_store(value)
        path = super().convert(value, param, ctx)
        call_files().read(os.fsdecode(path))
        return path


def _of_store(name: str) -> str:
    """Return the path of a model in Ollama's store; print it on stderr, with the files that are used beside the model.

    :raises FormatError: for a model that is not there
    """
    from i2s_spec.gguf.ollama_store import stored_model

    found = stored_model(name)
    click.echo(f"i2s: {shown(name)} is {shown(found.path)}", err=True)
    for kind, path in found.beside:
        click.echo(f"i2s: it is used with the {kind} {shown(path)}", err=True)
    return found.path


class _OutputPath(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        call_files().write(os.fsdecode(path))
        return path


#: The path of a file or folder that a call reads, and of one that it writes. What it is, is seen when it is opened.
INPUT: Final = _InputPath(readable=False)
OUTPUT: Final = _OutputPath(readable=False)


def _refuse_input(target: str, path: str) -> None:
    from i2s_spec.gguf.atomic_file import InputFileError, refuse_inputs

    if not os.path.exists(target):
        return
    inside: Sequence[str] = ()
    with suppress(OSError):
        inside = [os.path.join(path, name) for name in os.listdir(path)]
    # GGUF files and reports in a folder are what earlier calls wrote there, as in the folder of a checkpoint.
    if inside and (target.endswith(".gguf") or is_report(target)):
        inside = ()
    try:
        refuse_inputs(target, path, *inside)
    except InputFileError as error:
        raise click.UsageError(f"{shown(target)} is an input file; the output needs another name") from error


def _one_name(path: str) -> str:
    """Return the same for all names of a file that will be: links of folders are followed, the file itself is
    replaced.
    """
    folder, base = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), base)


#: How the reports of this package begin, in every form and of every version.
_REPORTS: Final = (
    rb'(?i)<!doctype html>\n<html lang="en">\s*<head>\s*<meta charset="utf-8">',
    rb"<\?xml [^>]*\?>\s*<testsuites\b",
    rb'\{\s*"\$schema"\s*:\s*"[^"]*sarif',
    rb'\{\s*"schemaVersion"\s*:',
    rb'\{\s*"schema_version"\s*:\s*\d+\s*,\s*("tool"\s*:\s*\{|"type"\s*:|"files"\s*:\s*\d)',
    rb'\{\s*"record"\s*:',
    rb"# i2s |\| implementation \||::(error|warning|notice) |I2S-\d{4} |(i2s: )?[\d,]+ files?[,:] ",
    rb" *[\d,]+  [A-Z]\d{3} [a-z-]+, in [\d,]+ files?\n",
    rb"[^\n]*: (ok\b|[\d,]+ (error|warning|note)s?\b|(error|warning|note): [A-Z]\d{3}\b)",
)


def is_report(path: str) -> bool:
    """Whether a file is empty, or a report of this package: lint, census or conform."""
    import re

    from i2s_spec.gguf.source import open_regular

    try:
        with open_regular(path) as file:
            beginning = file.read(1 << 12)
    except (OSError, FormatError):
        return False
    return not beginning or any(re.match(each, beginning) for each in _REPORTS)


def report_place(place: str, force: bool) -> str:
    """Return the name of a report, which replaces only another report, or with `force` any file but a model.

    :raises click.UsageError: where another file has the name
    """
    if os.path.isfile(place) and not is_report(place):
        with open(place, "rb") as file:
            if file.read(len(faults.MAGIC)) == faults.MAGIC:
                raise click.UsageError(f"{shown(place)} is a GGUF file; no report replaces it")
        if not force:
            raise click.UsageError(f"{shown(place)} exists and is no report; use --force to replace it")
    return place


@contextmanager
def reading(path: str | None, as_json: bool = False) -> Iterator[None]:
    """Read one file: name it in a fault that is met there, where nothing more exact is known.

    :param as_json: whoever asked for JSON gets the fault as JSON too, on stdout
    """
    try:
        yield
    except FormatError as error:
        if path is not None:
            error.of_file(path)
        if as_json:
            sys.stdout.writelines(json_document(refusal(error)))
        raise


def fault_status(fault: FormatError, name: str) -> int:
    """Print the fault that stopped the reading of a file, and return what the command exits with."""
    sys.stdout.flush()
    click.echo(f"i2s: {shown(name)}: {fault_words(fault)}", err=True)
    return faults.exit_code_of(fault.code) if fault.code in faults.NO_INPUT else EXIT_FINDINGS


def refusal(error: FormatError) -> dict[str, Any]:
    """Return what JSON says of a file that could not be read: the file, where it is known, and the fault."""
    from i2s_spec.inspect.show import fault

    return {
        "schema_version": 1,
        "path": None if error.file is None else json_string(error.file),
        "fault": fault(error),
    }


@contextmanager
def writing(target: str | None) -> Iterator[None]:
    """Write a file, and report what a user got wrong: it is there already, or an argument does not fit. A verb that is
    told to end leaves nothing half-written.

    :raises click.UsageError: for `-`, and for `FileExistsError`, `ValueError`, `TypeError` and `KeyError`
    """
    if target == "-":
        raise click.UsageError(
            "- means standard output, to which this command does not write; ./- is a file of that name"
        )
    try:
        with cleaned_up(), usage_errors(KeyError, TypeError, ValueError):
            yield
    except FileExistsError as error:
        from i2s_spec.gguf.atomic_file import InputFileError

        name = shown(os.fsdecode(error.filename or target or ""))
        if isinstance(error, InputFileError):
            raise click.UsageError(f"{name} is an input file; the output needs another name") from None
        raise click.UsageError(f"{name} already exists; use --force to overwrite it") from None


@contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Make errors of these kinds what a user got wrong.

    :raises click.UsageError: with their words
    """
    try:
        yield
    except FormatError:  # is a ValueError too, but an answer of its own
        raise
    except kinds as error:
        raise click.UsageError(str(error.args[0] if isinstance(error, KeyError) else error)) from None


def write_answer(parts: Iterable[str], output: str | None, force: bool) -> None:
    """Print an answer, or write it to a file, which gets its name when it is whole.

    :param output: the file; None and `-` for standard output
    """
    if output in (None, "-"):
        for part in parts:
            sys.stdout.write(encodable(part, sys.stdout))
        return
    from i2s_spec.gguf.atomic_file import OutputFile

    with writing(output), OutputFile(output, force=force) as target:
        for part in parts:
            target.write(part.encode("utf-8", "backslashreplace"))


def warn_of_programs(target: str, quiet: bool, as_json: bool) -> list[str]:
    """Print on stderr what programs are known to do wrongly with a GGUF file that was just written.

    :returns: the sentences, for a document; nothing is looked for if they are wanted neither there nor on stderr
    """
    from i2s_spec.linter.runtimes.conversions import cautions

    if (quiet and not as_json) or not target.endswith(".gguf") or not os.path.isfile(target):
        return []
    try:
        found = list(cautions(target))
    except (OSError, FormatError):  # it was moved or replaced meanwhile
        return []
    if not quiet:
        for sentence in found:
            click.echo(f"warning: {sentence}", err=True)
    return found


def whole_file(output: str, dry_run: str) -> Callable[[Command], Command]:
    """Add the argument and options of a verb that writes FILE anew.

    :param output: what `--output` is
    :param dry_run: what `--dry-run` does
    """
    return _all(
        click.argument("file", type=INPUT),
        click.option("-o", "--output", "target", metavar="OUT", type=OUTPUT, help=output),
        click.option("--dry-run", is_flag=True, help=dry_run),
        click.option("--force", is_flag=True, help="Overwrite OUT if it exists."),
        click.option("--json", "as_json", is_flag=True, help="As JSON."),
        threads_option(),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing."),
        remote_options,
    )


def out_argument(name: str) -> Callable[[Command], Command]:
    """Add the file to write as the last argument OUT, or as `-o OUT`, which verbs have whose first argument is a model.

    It stands next to the function.

    :param name: of the function's parameter
    """

    def made(command: Command) -> Command:
        @wraps(command)
        def whole(*args: Any, output: str | None, **options: Any) -> Any:
            if (options[name] is None) == (output is None):
                given = "is given twice" if output is not None else "is missing"
                raise click.UsageError(f"the file to write {given}: OUT as the last argument, or -o OUT")
            options[name] = output if output is not None else options[name]
            return command(*args, **options)

        whole = click.option("-o", "--output", metavar="OUT", type=OUTPUT, help="The same as OUT.")(whole)
        return click.argument(name, metavar="[OUT]", required=False, type=OUTPUT)(whole)

    return made


def check_target(target: str | None, **dry: bool) -> None:
    """Check that either a file is named, or nothing is written.

    :param dry: by the names of the options that write nothing, whether they were given
    :raises click.UsageError: with neither or both
    """
    flags = [f"--{name.replace('_', '-')}" for name in dry]
    if target is None and not any(dry.values()):
        raise click.UsageError(f"one of {', '.join(['-o OUT', *flags[:-1]])} and {flags[-1]} is needed")
    for flag, given in zip(flags, dry.values(), strict=True):
        if target is not None and given:
            raise click.UsageError(f"{flag} writes nothing: it has no -o OUT")


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)
