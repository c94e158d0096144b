"""`i2s rules`: every rule in a list, or as the pages of the specification."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from i2s_spec.cli.form_option import form_option
from i2s_spec.errors import EXIT_FINDINGS, counted, quote
from i2s_spec.linter.explain import SCHEMA_VERSION, as_dict
from i2s_spec.linter.rule import Rule, Severity, every_file
from i2s_spec.linter.rules import all_rules
from i2s_spec.linter.selection.profile import PROFILES, selected

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("rules", epilog="Example:  i2s rules I", short_help="List every rule.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@form_option(["text", "json"])
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="List the rules of a profile, with the severities that they have in it.",
)
@click.option("--profiles", is_flag=True, help="List the profiles, and what each is for.")
@click.option(
    "--write", "target", type=_FOLDER, metavar="DIR", help="Write a page for each rule, and an index, to DIR."
)
@click.option(
    "--check", "current", type=_FOLDER, metavar="DIR", help="Exit with 1 where the pages in DIR are not current."
)
def command(
    prefixes: tuple[str, ...],
    form: str,
    profile: str | None,
    profiles: bool,
    target: Path | None,
    current: Path | None,
) -> int:
    """List every rule, or those whose code begins with one of the prefixes.

    The title is followed by what the rule applies to, unless that is every file, and by whether it reads the weights.

    --write writes the pages of all rules to a folder; --check compares them with a folder. Clauses become links to the
    chapters in its parent folder.
    """
    if target is not None or current is not None:
        if prefixes or form != "text" or profiles or profile or (target and current):
            raise click.UsageError("--write DIR and --check DIR cover all rules, and take no other option")
        return _write(target) if target is not None else _check(current)
    if profiles:
        return _profiles(form)
    wanted = tuple(prefix.upper() for prefix in prefixes) or ("",)
    levels = {rule.code: rule.severity for rule in all_rules()}
    if profile is not None:
        levels = dict(selected(profile, runtimes=True, reference=True))
    rules = [rule for rule in all_rules() if rule.code.startswith(wanted) and rule.code in levels]
    if form == "json":
        about = None if profile is None else {"name": profile, "purpose": PROFILES[profile].purpose}
        listed = [_about(rule, levels[rule.code]) for rule in rules]
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "profile": about, "rules": listed}, indent=2))
        return 0
    if not rules:
        among = "" if profile is None else f" of the profile {profile}"
        raise click.UsageError(f"no rule{among} begins with {', '.join(map(quote, wanted))}")
    width = max(len(rule.slug) for rule in rules)
    for rule in rules:
        level = levels[rule.code].value
        conditions = [
            *([rule.applies_to] if rule.when is not every_file else []),
            *(["reads the weights"] if rule.payload else []),
        ]
        condition = f"  ({'; '.join(conditions)})" if conditions else ""
        click.echo(f"{rule.code}  {rule.slug:<{width}}  {level:<7}  {rule.clause:<4}  {rule.title}{condition}")
    return 0


def _about(rule: Rule, level: Severity) -> dict[str, Any]:
    return {**as_dict(rule), "severity": level.value}


def _profiles(form: str) -> int:
    counts = {name: Counter(selected(name, runtimes=True, reference=True).values()) for name in PROFILES}
    if form == "json":
        listed = [
            {"name": name, "purpose": profile.purpose, **{f"{level.value}s": counts[name][level] for level in Severity}}
            for name, profile in PROFILES.items()
        ]
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "profiles": listed}, indent=2))
        return 0
    width = max(map(len, PROFILES))
    for name, profile in PROFILES.items():
        numbers = ", ".join(f"{counts[name][level]} {level.value}s" for level in Severity)
        click.echo(f"{name:<{width}}  {profile.purpose} ({numbers})")
    return 0


def _write(folder: Path) -> int:
    from i2s_spec.cli.specification import rule_pages

    changed = rule_pages.write(folder)
    click.echo(f"{counted(len(changed), 'page')} in {quote(str(folder), bare=True)} changed")
    return 0


def _check(folder: Path | None) -> int:
    from i2s_spec.cli.specification import rule_pages

    assert folder is not None
    wrong = rule_pages.check(folder)
    for sentence in wrong:
        click.echo(sentence)
    if wrong:
        click.echo(f"i2s: run `i2s rules --write {quote(str(folder), bare=True)}`", err=True)
    return EXIT_FINDINGS if wrong else 0
