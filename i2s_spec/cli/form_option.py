"""This module declares the option `--format` of verbs that answer in several forms, with `--json` as its short form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import click

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
