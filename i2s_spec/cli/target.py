"""What verbs that write a file share: which file, whether it may be replaced, and what they say if it may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import click

from i2s_spec.cli.termination import cleaned_up
from i2s_spec.errors import FormatError, quote

Command = Callable[..., Any]


def shown(path: str) -> str:
    """A path as it may be printed, whole."""
    return quote(path, limit=4096, bare=True)


@contextmanager
def writing(target: str | None) -> Iterator[None]:
    """Write a file, and say what a user got wrong: it is there already, or an argument does not fit. Told to end, a verb
    leaves nothing half-written.

    :raises click.UsageError: for `FileExistsError`, `ValueError`, `TypeError` and `KeyError`
    """
    try:
        with cleaned_up():
            yield
    except FileExistsError:
        raise click.UsageError(f"{shown(target or '')} is there already; --force replaces it") from None
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
        click.argument("file", type=click.Path()),
        click.option("-o", "--output", "target", metavar="OUT", type=click.Path(), help=output),
        click.option("--dry-run", is_flag=True, help=dry_run),
        click.option("--force", is_flag=True, help="Replace OUT if there is one."),
        click.option("--json", "as_json", is_flag=True, help="As JSON."),
        click.option("--threads", type=click.IntRange(1), help=threads),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing."),
    )


def check_target(target: str | None, dry_run: bool) -> None:
    """Either a file is named, or nothing is written.

    :raises click.UsageError: with neither or both
    """
    if (target is None) != dry_run:
        raise click.UsageError("one of -o OUT and --dry-run is needed" if target is None else "a dry run has no -o OUT")


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)
