"""This module says a command as it was typed, from what click read of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource


def command_line(ctx: click.Context) -> str:
    """The command of a context, with the arguments and options that were given on the command line."""
    words = ["i2s", *ctx.command_path.split()[1:]] if ctx.parent is not None else ["i2s", ctx.command.name or ""]
    options = [parameter for parameter in ctx.command.params if isinstance(parameter, click.Option)]
    for option in options:
        words += _given(ctx, option)
    for argument in ctx.command.params:
        if isinstance(argument, click.Argument):
            words += _values(ctx.params.get(argument.name or ""))
    return shlex.join(word for word in words if word)


def _given(ctx: click.Context, option: click.Option) -> Iterator[str]:
    """An option as it is written, with its values; nothing where it was not given."""
    name = option.name or ""
    if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return
    value = ctx.params.get(name)
    spelling = next((each for each in option.opts if each.startswith("--")), option.opts[0])
    if option.is_flag:
        yield spelling if value else max(option.secondary_opts or option.opts, key=len)
    elif option.multiple and isinstance(value, list | tuple):
        for each in value:
            yield from (spelling, *_values(each))
    elif isinstance(value, dict):
        for path, form in value.items():
            yield from (spelling, f"{form}={path}")
    else:
        yield from (spelling, *_values(value))


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
