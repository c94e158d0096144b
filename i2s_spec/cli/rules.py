"""`i2s rules`: every rule in a list, or as the pages of the specification."""

from __future__ import annotations

import json
from pathlib import Path

import click

from i2s_spec.cli import EXIT_FINDINGS
from i2s_spec.errors import quote
from i2s_spec.linter.explain import SCHEMA_VERSION, as_dict
from i2s_spec.linter.rules import all_rules

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("rules", epilog="Example:  i2s rules I", short_help="List every rule.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--write", "target", type=_FOLDER, metavar="DIR", help="Write a page for each rule, and an index, to DIR."
)
@click.option(
    "--check", "current", type=_FOLDER, metavar="DIR", help="Exit with 1 where the pages in DIR are not current."
)
def command(prefixes: tuple[str, ...], form: str, target: Path | None, current: Path | None) -> int:
    """List every rule, or those whose code begins with one of the prefixes.

    With --write or --check the pages of all rules are written to a folder, or compared with it. Clauses become links to
    the chapters in the folder around it.
    """
    if target is not None or current is not None:
        if prefixes or form != "text" or (target is not None and current is not None):
            raise click.UsageError("--write DIR and --check DIR each stand alone: pages are of all rules")
        return _write(target) if target is not None else _check(current)
    wanted = tuple(prefix.upper() for prefix in prefixes) or ("",)
    rules = [rule for rule in all_rules() if rule.code.startswith(wanted)]
    if form == "json":
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "rules": [as_dict(rule) for rule in rules]}, indent=2))
        return 0
    if not rules:
        raise click.UsageError(f"no rule begins with {', '.join(wanted)}")
    width = max(len(rule.slug) for rule in rules)
    for rule in rules:
        click.echo(f"{rule.code}  {rule.slug:<{width}}  {rule.severity.value:<7}  {rule.clause:<4}  {rule.title}")
    return 0


def _write(folder: Path) -> int:
    from i2s_spec.docs import pages

    changed = pages.write(folder)
    click.echo(f"{len(changed):,} pages in {quote(str(folder), bare=True)} changed")
    return 0


def _check(folder: Path | None) -> int:
    from i2s_spec.docs import pages

    assert folder is not None
    wrong = pages.check(folder)
    for sentence in wrong:
        click.echo(sentence)
    if wrong:
        click.echo(f"i2s: run `i2s rules --write {quote(str(folder), bare=True)}`", err=True)
    return EXIT_FINDINGS if wrong else 0
