"""This module finds out what holds for a run of `lint`: command line, environment, configuration files, defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from i2s_spec.errors import quote
from i2s_spec.linter.options import Options
from i2s_spec.linter.reference import Reference
from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.selection.config import Config
from i2s_spec.schema.magic import MAGIC

if TYPE_CHECKING:
    from i2s_spec.remote.policy import Policy


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


#: Where a setting comes from that whoever runs the program gives.
GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class Settings:
    """What holds for this run: the command line before the environment before configuration files before defaults."""

    _KEYS = {"form": "format", "fail_on": "fail-on", "skip_lfs": "skip-lfs"}  # noqa: RUF012

    def __init__(self, ctx: click.Context, given: dict[str, Any], config: Config) -> None:
        self._ctx = ctx
        self._given = given
        self._config = config

    def __getitem__(self, name: str) -> Any:
        if self._ctx.get_parameter_source(name) in GIVEN:
            return self._given[name]
        return self._config.get(self._KEYS.get(name, name), self._given[name])

    def merged(self, name: str) -> dict[str, Any]:
        """A setting that is a table: entries of the configuration that were not given anew stay."""
        return {**self._config.get(name, {}), **self._given[name]}

    @property
    def form(self) -> str:
        """The name of the format."""
        return "json" if self._given["as_json"] else str(self["form"])

    @property
    def payload(self) -> Any:
        """How much of the payloads is read; None for what the profile says."""
        flags = {"none": self._given["header_only"], "sample": self._given["sample"]}
        asked = [mode for mode, flag in flags.items() if flag]
        on_line = self._ctx.get_parameter_source("payload") is ParameterSource.COMMANDLINE
        if len(asked) > 1 or (asked and on_line and self._given["payload"] not in asked):
            raise click.UsageError("--header-only, --sample and --payload exclude each other")
        return asked[0] if asked else self["payload"]


def options_of(
    setting: Settings, config: Config, details: Callable[[Any], Any] | None, reference: Reference | None
) -> Options:
    """How files are linted in this run.

    :raises UsageError: where something cannot be followed, such as a code that no rule has
    """
    try:
        options = Options(
            profile=setting["profile"],
            select=tuple(setting["select"]),
            ignore=tuple(setting["ignore"]),
            severity=setting.merged("severity"),
            limits=setting.merged("limits"),
            payload=setting.payload,
            threads=setting["threads"],
            runtimes=setting["runtimes"],
            suppressions=config.suppressions,
            skip_lfs=setting["skip_lfs"],
            details=details,
            remote=_policy(),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        return options if reference is None else options.replaced(reference=reference)
    except ValueError as error:
        raise click.UsageError(f"--reference: {error}") from None


def _policy() -> Policy | None:
    """What may be asked of servers, for other processes; None where nothing was said about it."""
    import sys

    policy = sys.modules.get("i2s_spec.remote.policy")  # without it nobody set anything
    return None if policy is None else policy.current()
