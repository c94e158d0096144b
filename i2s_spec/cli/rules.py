"""`i2s rules`: every rule in a list."""

from __future__ import annotations

import json

import click

from i2s_spec.linter.explain import SCHEMA_VERSION, as_dict
from i2s_spec.linter.rule import all_rules


@click.command("rules", epilog="Example:  i2s rules I", short_help="List every rule.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(prefixes: tuple[str, ...], form: str) -> None:
    """List every rule, or those whose code begins with one of the prefixes."""
    wanted = tuple(prefix.upper() for prefix in prefixes) or ("",)
    rules = [rule for rule in all_rules() if rule.code.startswith(wanted)]
    if form == "json":
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "rules": [as_dict(rule) for rule in rules]}, indent=2))
        return
    if not rules:
        raise click.UsageError(f"no rule begins with {', '.join(wanted)}")
    width = max(len(rule.slug) for rule in rules)
    for rule in rules:
        click.echo(f"{rule.code}  {rule.slug:<{width}}  {rule.severity.value:<7}  {rule.clause:<4}  {rule.title}")
