"""`i2s explain CODE`: what a rule says, why, and what to do."""

from __future__ import annotations

import json
from typing import Any

import click

from i2s_spec.cli.form_option import form_option
from i2s_spec.errors import quote
from i2s_spec.linter.explain import UnknownRule, as_dict, as_markdown, as_text, find
from i2s_spec.linter.rule import Rule


@click.command(
    "explain",
    epilog="Example:  i2s explain I104 --example",
    short_help="Explain a rule: what it means, why, and what to do.",
)
@click.argument("codes", nargs=-1, required=True, metavar="CODE...")
@click.option("--example", is_flag=True, help="Show the rule at work, too: a file that breaks it, and a mended one.")
@form_option(["text", "json", "markdown"])
def command(codes: tuple[str, ...], example: bool, form: str) -> None:
    """Say what a rule is about, why it matters, and what to do; CODE is a code such as I104 or a slug.

    --example makes a file that breaks the rule, lints it and, if there is a repair, repairs it. The page of the rule
    shows the same output.
    """
    try:
        rules = [find(code) for code in codes]
    except UnknownRule as error:
        hint = f"; did you mean {' or '.join(error.close)}?" if error.close else "; `i2s rules` lists them all"
        raise click.UsageError(f"there is no rule {quote(error.name)}{hint}") from None
    if form == "json":
        click.echo(json.dumps([_as_data(rule, example) for rule in rules], indent=2))
    else:
        click.echo("\n".join(_as_words(rule, example, form) for rule in rules), nl=False)


def _as_words(rule: Rule, example: bool, form: str) -> str:
    if not example:
        return as_text(rule) if form == "text" else as_markdown(rule)
    from i2s_spec.cli.specification import rule_examples, rule_pages

    if form == "markdown":
        return rule_pages.words(rule)
    return as_text(rule) + "\n" + rule_examples.as_text(rule_examples.shown(rule))


def _as_data(rule: Rule, example: bool) -> dict[str, Any]:
    if not example:
        return as_dict(rule)
    from i2s_spec.cli.specification.rule_examples import shown

    return {**as_dict(rule), "before_after": shown(rule)._asdict()}
