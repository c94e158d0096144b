"""This module reads the values of options of `lint` that click leaves as text: lists, pairs, limits, files of reports."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click

from i2s_spec.errors import quote
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
