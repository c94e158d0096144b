"""This module declares the option `--format` of verbs that answer in several forms, with `--json` as its short form."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce, wraps
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from i2s_spec.cli.process import cleaned_up
from i2s_spec.draw.text import json_document, json_string
from i2s_spec.errors import FormatError, quote
from i2s_spec.linter.options import Option, OptionGroup, OptionKind, declared
from i2s_spec.linter.report import FORMATS
from i2s_spec.schema.faults import MAGIC

Verb = TypeVar("Verb", bound=Callable[..., Any])


def form_option(
    forms: Sequence[str], default: str | None = "text", help: str | None = None, schema: str = ""
) -> Callable[[Verb], Verb]:
    """`--format FORM` and `--json`, of which the verb gets one parameter `form`; where both are given, JSON it is.

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


# --- settings --------------------------------------------------------------------------------------------------------
# Click's options of the declared options of `lint`, and reads the values that click leaves as text.
#
# These are lists, pairs, limits, rates, and files of reports.


def words(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> tuple[str, ...]:
    """Values of an option that may be given many times, and hold many words with commas between them."""
    return tuple(word for value in values for word in value.split(",") if word)


def pairs_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Values of the form NAME=VALUE as a table; of two for one name the last one counts."""
    pairs = {}
    for word in words(ctx, parameter, values):
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise click.BadParameter(f"{quote(word)} is not of the form {parameter.metavar}", ctx, parameter)
        pairs[name] = value
    return pairs


def limits_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, int]:
    """Values of the form NAME=NUMBER as a table."""
    limits = {}
    for name, value in pairs_of(ctx, parameter, values).items():
        try:
            limits[name] = int(value) if len(value) <= 20 else -1
        except ValueError:
            limits[name] = -1
        if limits[name] < 0:
            raise click.BadParameter(f"{quote(value)} is not a number", ctx, parameter)
    return limits


def files_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Values of the form FORM=FILE: the form of each file."""
    files = {}
    for value in values:
        form, _, path = value.partition("=")
        if form not in FORMATS or not path:
            wanted = f"{parameter.metavar}, with one of {', '.join(sorted(FORMATS))}"
            raise click.BadParameter(f"{quote(value)} is not of the form {wanted}", ctx, parameter)
        spared(ctx, parameter, path)
        files[path] = form
    return files


def spared(ctx: click.Context, parameter: click.Parameter, place: str | None) -> str | None:
    """The file that a report goes to, which is never a model: that would be lost."""
    if place is not None and os.path.isfile(place):
        with open(place, "rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                raise click.BadParameter(f"{quote(place)} is a GGUF file; no report replaces it", ctx, parameter)
    return place


def rates_of(ctx: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Values of the form HOST=REQUESTS/SECONDS as a table."""
    rates = {}
    for value in values:
        host, _, rate = value.rpartition("=")
        requests, sign, seconds = rate.partition("/")
        try:
            numbers = float(requests), float(seconds) if sign else 1.0
        except ValueError:
            numbers = math.nan, math.nan
        if not host or not all(0 < number < 1e9 for number in numbers):
            raise click.BadParameter(f"{quote(value)} is not of the form {parameter.metavar}", ctx, parameter)
        rates[host] = numbers
    return rates


#: The groups of options in the order of the help.
IN_HELP: Final = (
    OptionGroup.REPORT,
    OptionGroup.RULES,
    OptionGroup.SPEED,
    OptionGroup.CLUSTER,
    OptionGroup.COMPARISON,
    OptionGroup.VERDICT,
    OptionGroup.FILES,
)

#: What click must know about an option of each kind.
_KINDS: Final[Mapping[OptionKind, dict[str, Any]]] = {
    OptionKind.FLAG: {"is_flag": True},
    OptionKind.TEXT: {},
    OptionKind.FILE: {"type": click.Path(dir_okay=False)},
    OptionKind.INPUT: {"type": click.Path(readable=False)},
    OptionKind.WORDS: {"multiple": True, "callback": words},
    OptionKind.ACCEPTED: {"multiple": True, "callback": words},
    OptionKind.LEVELS: {"multiple": True, "callback": pairs_of},
    OptionKind.BOUNDS: {"multiple": True, "callback": limits_of},
    OptionKind.REPORT: {"type": click.Path(dir_okay=False), "callback": spared},
    OptionKind.REPORTS: {"multiple": True, "callback": files_of},
    OptionKind.RATES: {"multiple": True, "callback": rates_of},
}

#: Where values come from that whoever runs the program sets.
_ASKED: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

Command = Callable[..., Any]


def lint_options(*classes: type) -> Callable[[Command], Command]:
    """Add the options that these classes declare to a command."""

    def decorate(command: Command) -> Command:
        options = sorted(declared(*classes).items(), key=lambda found: IN_HELP.index(found[1].group))
        for name, option in reversed(options):
            for short in reversed(option.shorts):
                command = click.option(short.flag, short.name, is_flag=True, help=short.help)(command)
            command = _click_option(name, option)(command)
        return command

    return decorate


def _click_option(name: str, option: Option) -> Callable[[Command], Command]:
    more: dict[str, Any] = {"help": option.help, "envvar": option.env, "metavar": option.metavar}
    if option.kind is OptionKind.CHOICE:
        more["type"] = click.Choice(sorted(option.choices) if option.sorted_help else option.choices)
    elif option.kind is OptionKind.COUNT:
        more["type"] = click.IntRange(option.least)
    else:
        more |= _KINDS[option.kind]
    if option.kind in (OptionKind.CHOICE, OptionKind.COUNT) and option.default is not None:
        more |= {"default": option.default, "show_default": True}
    return click.option(*option.flags, name, **more)


def asked_for(ctx: click.Context, given: dict[str, Any], *classes: type) -> set[str]:
    """The names of the declared options that the command line or a variable sets.

    Short flags are taken out of the values, and set the options that they stand for.

    :raises UsageError: where flags exclude each other
    """
    sources = {name: ctx.get_parameter_source(name) for name in given}
    asked = {name for name, source in sources.items() if source in _ASKED}
    for name, option in declared(*classes).items():
        flags = [short for short in option.shorts if given.pop(short.name)]
        on_line = sources[name] is ParameterSource.COMMANDLINE
        wrong = len(flags) > 1 or (flags and on_line and given[name] != flags[0].value)
        if wrong and option.exclusive:
            names = ", ".join(short.flag for short in option.shorts)
            raise click.UsageError(f"{names} and {option.flags[0]} exclude each other")
        if flags:
            given[name] = flags[0].value
            asked.add(name)
    return asked


# --- remote options --------------------------------------------------------------------------------------------------
# What verbs that read addresses share: which networks may be asked, and the budget of a file.


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


# --- target ----------------------------------------------------------------------------------------------------------
# What verbs that write a file share: which file, whether it may be replaced, and what they say if it may not.


def shown(path: str) -> str:
    """A path as it may be printed, whole."""
    return quote(path, limit=4096, bare=True)


def keep_inputs(target: str | None, *inputs: str | None) -> None:
    """Refuse to replace a file that the same call reads, also where replacing is allowed: nobody means to lose a model to
    its own report.

    :param target: the file to write; None where none is written
    :param inputs: the files to read, under whatever name; None for one that was not given
    :raises click.UsageError: where they are the same
    """
    for path in inputs if target is not None else ():
        try:
            same = path is not None and target is not None and os.path.samefile(path, target)
        except (OSError, ValueError):  # one of them does not exist, or has no name that could
            continue
        if same:
            raise click.UsageError(f"{shown(target or '')} is an input file; the output needs another name")


@contextmanager
def reading(path: str | None, as_json: bool = False) -> Iterator[None]:
    """Read one file: a fault that is met there is said with its name, where nothing more exact is known.

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


def refusal(error: FormatError) -> dict[str, Any]:
    """What JSON says of a file that could not be read: the file, where it is known, and the fault."""
    from i2s_spec.inspect.show import fault

    return {
        "schema_version": 1,
        "path": None if error.file is None else json_string(error.file),
        "fault": fault(error),
    }


@contextmanager
def writing(target: str | None, *inputs: str | None) -> Iterator[None]:
    """Write a file, and say what a user got wrong: it is there already, or an argument does not fit. Told to end, a verb
    leaves nothing half-written.

    :param inputs: files that the verb reads, which `target` cannot replace
    :raises click.UsageError: for `-`, and for `FileExistsError`, `ValueError`, `TypeError` and `KeyError`
    """
    if target == "-":
        raise click.UsageError(
            "- means standard output, to which this command does not write; ./- is a file of that name"
        )
    keep_inputs(target, *inputs)
    try:
        with cleaned_up():
            yield
    except FileExistsError:
        raise click.UsageError(f"{shown(target or '')} already exists; use --force to overwrite it") from None
    except FormatError:  # is a ValueError too, but an answer of its own
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise click.UsageError(str(error.args[0] if isinstance(error, KeyError) else error)) from None


def whole_file(output: str, dry_run: str) -> Callable[[Command], Command]:
    """The argument and options of a verb that writes FILE anew.

    :param output: what `--output` is
    :param dry_run: what `--dry-run` does
    """
    threads = "Threads that decode. [default: one for each processor]"
    return _all(
        click.argument("file", type=click.Path(readable=False)),
        click.option("-o", "--output", "target", metavar="OUT", type=click.Path(readable=False), help=output),
        click.option("--dry-run", is_flag=True, help=dry_run),
        click.option("--force", is_flag=True, help="Overwrite OUT if it exists."),
        click.option("--json", "as_json", is_flag=True, help="As JSON."),
        click.option("--threads", type=click.IntRange(1), help=threads),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing."),
    )


def out_argument(name: str) -> Callable[[Command], Command]:
    """The file to write as the last argument OUT, or as `-o OUT`, which verbs have whose first argument is a model.

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

        path = click.Path(readable=False)
        whole = click.option("-o", "--output", metavar="OUT", type=path, help="The same as OUT.")(whole)
        return click.argument(name, metavar="[OUT]", required=False, type=path)(whole)

    return made


def check_target(target: str | None, dry_run: bool) -> None:
    """Either a file is named, or nothing is written.

    :raises click.UsageError: with neither or both
    """
    if (target is None) != dry_run:
        raise click.UsageError("one of -o OUT and --dry-run is needed" if target is None else "a dry run has no -o OUT")


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)
