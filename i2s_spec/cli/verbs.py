"""The group of all verbs, by click: it imports the module of a verb when the verb is named.

`command_line` is a command as it was typed, from what click read of it.
"""

from __future__ import annotations

import io
import os
import shlex
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import click
from click.core import ParameterSource

from i2s_spec._version import __version__
from i2s_spec.errors import EXIT_CODES, ReadOnWarning, quote

#: The verbs by what they are for, as `i2s --help` lists them, and the module that holds `VERB_command`.
GROUPS: Final = {
    "Look at files": {
        "doctor": "doctor", "lint": "lint", "identify": "identify", "show": "look", "dump": "look", "hash": "compare",
        "diff": "compare", "census": "cluster",
    },
    "Change files": {"fix": "repair", "sanitize": "repair", "convert": "convert", "decode": "arrays", "encode": "arrays"},
    "Make models": {
        "new": "new", "import": "checkpoints", "verify": "checkpoints", "export": "checkpoints", "quantize": "convert",
    },
    "Run models": {"run": "run", "perplexity": "perplexity", "embed": "perplexity", "golden": "golden"},
    "Test other programs": {"conform": "conform", "vectors": "conform", "fuzz": "fuzz"},
    "Read the specification": {"explain": "rules", "rules": "rules", "schema": "rules", "spec": "rules"},
    "The package": {"demo": "new", "info": "look", "completion": "completion"},
}  # fmt: skip

#: Every verb and its module; `validate` is another name for `lint`.
VERBS: Final = {verb: module for group in GROUPS.values() for verb, module in group.items()} | {"validate": "lint"}

#: What other tools call a verb.
_OTHER_WORDS: Final = {
    "check": "lint", "test": "lint", "scan": "lint", "inspect": "show", "print": "show", "view": "show", "cat": "show",
    "ls": "show", "hexdump": "dump", "repair": "fix", "compare": "diff", "generate": "run", "chat": "run",
    "ppl": "perplexity", "create": "new", "help": "--help", "version": "--version",
}  # fmt: skip


class Verbs(click.Group):
    """A click group that imports the module of a verb when the verb is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb in VERBS if verb != "validate"]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs under the headings of `GROUPS`, and the exit codes."""
        width = formatter.width - 16
        for heading, verbs in GROUPS.items():
            commands = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            with formatter.section(heading):
                formatter.write_dl([(verb, each.get_short_help_str(width)) for verb, each in commands if each], 12)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()], 12)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        verb = "lint" if name == "validate" else name
        command: click.Command = getattr(import_module(f"i2s_spec.cli.{VERBS[name]}"), f"{verb}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a verb by its name; of one that does not exist, those that are spelled like it."""
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            other = _OTHER_WORDS.get(args[0].lower())
            near = [other] if other else get_close_matches(args[0], VERBS, 3, 0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; `i2s --help` lists them"
            if os.path.exists(args[0]):
                verb = "lint" if os.path.isdir(args[0]) else "doctor"
                hint = f", but a file of that name: `i2s {verb} FILE` looks at it"
            ctx.fail(f"there is no verb {quote(args[0])}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; an option that other linters have leads to the verb that does its work."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name != "--fix":
                raise
            steps = "`i2s fix FILE --dry-run` shows repairs, with -o OUT it makes them"
            raise click.UsageError(f"no such option --fix; {steps}", error.ctx) from None


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "I2S"},
    epilog="Example:  i2s demo        (needs no file)",
)
@click.version_option(__version__, "-V", "--version", message="i2s-spec %(version)s")
def cli() -> None:
    """Read, check and make GGUF files with I2_S tensors (BitNet's ternary weights)."""
    if os.environ.get("I2S_ISA") or os.environ.get("I2S_HIDE"):  # kernels that cannot be used are refused by every verb
        from i2s_spec.codec import isa

        isa.check()


def by_click(args: list[str]) -> object:
    """Run a command line, and return the exit code.

    :raises KeyboardInterrupt: for what click calls an abort
    :raises SystemExit: after a wrong call, which was shown
    """
    if "_I2S_COMPLETE" in os.environ:
        import i2s_spec.cli.completion  # noqa: F401  # click answers a shell with its classes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ReadOnWarning)
            warnings.showwarning = _remark
            return cli.main(args=args, prog_name="i2s", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        _show(error)
        raise SystemExit(error.exit_code) from None


def _remark(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a warning as a line on stderr; those of other packages are for programmers."""
    if issubclass(category, ReadOnWarning):
        click.echo(f"i2s: {message}", err=True)


def _show(error: click.ClickException) -> None:
    """Print what click reports of a wrong call; it repeats the caller's words, which may come from a hostile folder."""
    from i2s_spec.draw.text import visible

    output = io.StringIO()
    error.show(output)
    for line in output.getvalue().rstrip("\n").replace("\n\t", "\n  ").split("\n"):
        click.echo(visible(line, limit=1 << 16, bare=True), err=True)


# --- the command as it was typed -------------------------------------------------------------------------------------


def command_line(ctx: click.Context) -> str:
    """Return the command of a context, with the arguments and options that were given on the command line."""
    words = ["i2s", *ctx.command_path.split()[1:]] if ctx.parent is not None else ["i2s", ctx.command.name or ""]
    options = [parameter for parameter in ctx.command.params if isinstance(parameter, click.Option)]
    for option in options:
        words += _given(ctx, option)
    for argument in ctx.command.params:
        if isinstance(argument, click.Argument):
            words += _values(ctx.params.get(argument.name or ""))
    return shlex.join(word for word in words if word)


def _given(ctx: click.Context, option: click.Option) -> Iterator[str]:
    """Yield an option as it is written, with its values; nothing where it was not given."""
    name = option.name or ""
    if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return
    value = ctx.params.get(name)
    spelling = next((each for each in option.opts if each.startswith("--")), option.opts[0])
    if option.is_flag:
        yield spelling if value else max(option.secondary_opts or option.opts, key=len)
    elif option.multiple and isinstance(value, list | tuple):
        for each in value:
            yield from (spelling, *_values(each))
    elif isinstance(value, dict):
        for path, form in value.items():
            yield from (spelling, f"{form}={path}")
    else:
        yield from (spelling, *_values(value))


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
