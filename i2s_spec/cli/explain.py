"""`i2s explain CODE`: what a rule says, why, and what to do."""

from __future__ import annotations

import json

import click

from i2s_spec.errors import quote
from i2s_spec.linter.explain import UnknownRule, as_dict, as_markdown, as_text, find


@click.command("explain", epilog="Example:  i2s explain I104", short_help="What a rule says, why, and what to do.")
@click.argument("codes", nargs=-1, required=True, metavar="CODE...")
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
def command(codes: tuple[str, ...], form: str) -> None:
    """Say what a rule is about, why it matters, and what to do; CODE is a code such as I104 or a slug."""
    try:
        rules = [find(code) for code in codes]
    except UnknownRule as error:
        hint = f"; did you mean {' or '.join(error.close)}?" if error.close else "; `i2s rules` lists them all"
        raise click.UsageError(f"there is no rule {quote(error.name)}{hint}") from None
    if form == "json":
        click.echo(json.dumps([as_dict(rule) for rule in rules], indent=2))
    else:
        show = as_text if form == "text" else as_markdown
        click.echo("\n".join(show(rule) for rule in rules), nl=False)
