"""The page of all commands: what `--help` prints, by the groups of `i2s --help`, and the exit codes."""

from __future__ import annotations

from typing import Final

import click

from i2s_site.runtimes import table
from i2s_spec.cli.verbs import GROUPS, cli
from i2s_spec.errors import EXIT_CODES
from i2s_spec.linter.report_data import WORST

_HEAD: Final = """\
# Commands

`i2s COMMAND --help` prints the same. Files may be on servers ([Files on servers](remote.md)); [In pipelines and
programs](integration.md) has the configuration, and compares the options with those of `ruff`.
"""


def page() -> str:
    """Return the page: a table for each group of verbs, each verb's help, and the exit codes."""
    root = click.Context(cli, info_name="i2s")
    parts = [_HEAD]
    for heading, verbs in GROUPS.items():
        commands = {verb: command for verb in verbs if (command := cli.get_command(root, verb)) is not None}
        rows = [[f"[`i2s {verb}`](#i2s-{verb})", each.get_short_help_str(200)] for verb, each in commands.items()]
        parts.append(f"\n## {heading}\n\n{table(['command', 'what it does'], rows)}")
        for verb, command in commands.items():
            parts.append(f"\n### i2s {verb}\n\n```text\n{_help(command, verb, root)}\n```\n")
    codes = [[str(code), meaning] for code, meaning in EXIT_CODES.items()]
    worst = ", ".join(map(str, WORST))
    parts.append(
        f"\n## Exit codes\n\nOver several files the worst counts: {worst}.\n\n{table(['code', 'meaning'], codes)}"
    )
    return "".join(parts)


def _help(command: click.Command, name: str, parent: click.Context) -> str:
    """Return the help of a command, and below it that of its own commands."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=96, terminal_width=96)
    texts = [command.get_help(context)]
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            part = command.get_command(context, each)
            if part is not None and not part.hidden:
                texts.append(_help(part, each, context))
    return "\n\n".join(texts)
