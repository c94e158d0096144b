"""What verbs that write a file share: which file, whether it may be replaced, and what they say if it may not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from typing import Any

import click

from i2s_spec.cli.termination import cleaned_up
from i2s_spec.draw.text import json_document, json_string
from i2s_spec.errors import FormatError, quote

Command = Callable[..., Any]


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
