"""This module makes click's options of the declared options of `lint`, and reads the values that click leaves as text.

These are lists, pairs, limits, rates, and files of reports.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from i2s_spec.errors import quote
from i2s_spec.linter.options import Option, OptionGroup, OptionKind, declared
from i2s_spec.linter.report import FORMATS
from i2s_spec.schema.checks import MAGIC


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
