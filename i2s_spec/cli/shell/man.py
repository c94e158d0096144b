"""`i2s man [VERB]`: manual pages, made from the help of the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from i2s_spec._version import __version__
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.atomic_file import OutputFile

_FOLDER = click.Path(file_okay=False, path_type=Path)

#: Exit codes that verbs share, where their own help says nothing else.
_EXIT = (
    ("0", "no finding that fails the run"),
    ("1", "findings, or a difference"),
    ("2", "wrong usage"),
    ("3", "an input that cannot be read, or is not GGUF"),
    ("4", "a bug in i2s-spec"),
)


@click.command("man", epilog="Example:  i2s man lint", short_help="Print a manual page, or write all of them.")
@click.argument("verbs", nargs=-1, metavar="[VERB]...")
@click.option("--write", "target", type=_FOLDER, metavar="DIR", help="Write the pages of all verbs to DIR/man1.")
def command(verbs: tuple[str, ...], target: Path | None) -> None:
    """Print the manual page of i2s, or of a verb (`i2s man golden record`), as roff: i2s man lint | man -l -

    With --write every page is written: i2s man --write ~/.local/share/man, and man i2s-lint finds it.
    """
    from i2s_spec.cli import cli

    if target is None:
        click.echo(_page(*_named(cli, verbs)), nl=False)
        return
    if verbs:
        raise click.UsageError("--write DIR writes the pages of all verbs")
    folder = target / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    pages = list(_all(cli, click.Context(cli, info_name="i2s")))
    for found, context in pages:
        with OutputFile(folder / f"{_title(context)}.1", force=True) as output:
            output.write(_page(found, context).encode("utf-8"))
    click.echo(f"{counted(len(pages), 'page')} in {quote(str(folder), 4096, bare=True)}")


def _named(group: click.Group, verbs: tuple[str, ...]) -> tuple[click.Command, click.Context]:
    """A command by its words.

    :raises UsageError: where there is none
    """
    found: click.Command = group
    context = click.Context(group, info_name="i2s")
    for verb in verbs:
        inner = found.get_command(context, verb) if isinstance(found, click.Group) else None
        if inner is None:
            raise click.UsageError(f"there is no verb {quote(verb)} in {context.command_path}")
        found, context = inner, click.Context(inner, info_name=verb, parent=context)
    return found, context


def _all(found: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield found, context
    if isinstance(found, click.Group):
        for verb in found.list_commands(context):
            inner = found.get_command(context, verb)
            if inner is not None and not inner.hidden:
                yield from _all(inner, click.Context(inner, info_name=verb, parent=context))


def _title(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _page(found: click.Command, context: click.Context) -> str:
    """One page as roff, for man(7)."""
    lines = [f'.TH "{_escaped(_title(context)).upper()}" "1" "" "i2s\\-spec {_escaped(__version__)}" "User commands"']
    lines += [".SH NAME", f"{_escaped(_title(context))} \\- {_escaped(found.get_short_help_str(200).rstrip('.'))}"]
    pieces = " ".join(found.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f"\\fB{_escaped(context.command_path)}\\fR {_escaped(pieces)}", ".SH DESCRIPTION"]
    lines += _paragraphs(found.help or found.get_short_help_str(200))
    if isinstance(found, click.Group):
        lines.append(".SH COMMANDS")
        for verb in found.list_commands(context):
            inner = found.get_command(context, verb)
            if inner is not None and not inner.hidden:
                lines += [".TP", f"\\fB{_escaped(verb)}\\fR", _text(inner.get_short_help_str(200))]
    listed = [each for each in found.get_params(context) if isinstance(each, click.Option)]
    options = [record for each in listed if (record := each.get_help_record(context)) is not None]
    if options:
        lines.append(".SH OPTIONS")
        for names, words in options:
            lines += [".TP", f"\\fB{_escaped(names)}\\fR", _text(" ".join(words.split()) or "-")]
    lines.append(".SH EXIT STATUS")
    for code, words in _EXIT:
        lines += [".TP", f"\\fB{code}\\fR", _text(words)]
    if found.epilog:
        lines += [".SH EXAMPLES", *_paragraphs(found.epilog.removeprefix("Example:").strip())]
    others = [] if context.parent is None else [context.parent]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(_title(each))}\\fR(1)" for each in others) or "i2s explain"]
    return "\n".join(lines) + "\n"


def _paragraphs(help_text: str) -> Iterator[str]:
    """The paragraphs of a help text; those that click is told not to wrap stay as they are."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", cleandoc(help_text.partition("\f")[0]))):
        if number:
            yield ".PP"
        if paragraph.lstrip().startswith("\b"):
            yield ".nf"
            yield from map(_text, paragraph.replace("\b", "").strip("\n").splitlines())
            yield ".fi"
        else:
            yield _text(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    """Text inside a line of roff."""
    return (
        text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq").replace("`", "\\(ga")
    )


def _text(text: str) -> str:
    """A line of text, which is never a request, whatever it begins with."""
    return "\\&" + _escaped(text)
