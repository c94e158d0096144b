"""What verbs that read addresses share: which networks may be asked, and the budget of a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

Command = Callable[..., Any]


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
    from i2s_spec.cli.settings import limits_of
    from i2s_spec.remote.policy import current, using, with_numbers

    try:
        ctx.with_resource(using(with_numbers(current(), limits_of(ctx, parameter, values))))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None
