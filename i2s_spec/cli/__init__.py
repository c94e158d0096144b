"""The command line: one module per verb, each a thin face over a public function.

Verbs are imported when they are used, so that `i2s --version` starts in a moment. Results go to stdout, everything else
to stderr. Exit codes: 0 nothing found, 1 findings, 2 usage, 3 input unreadable or not GGUF, 4 our bug, 5 a server
did not give the file; 71 where memory is short, 75 where a run over many files ended early, 130 for Ctrl-C, 141 where the
reader of a pipe has gone.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from i2s_spec import explained
from i2s_spec._version import __version__
from i2s_spec.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_BUG,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_MEMORY,
    EXIT_UNFINISHED,
    EXIT_USAGE,
    FormatError,
    MissingExtra,
    SettingError,
    Unfinished,
    quote,
)

#: Every verb and the module that holds it; `validate` is another name for `lint`.
VERBS = {
    "lint": "files.lint",
    "validate": "files.lint",
    "show": "files.show",
    "dump": "files.dump",
    "doctor": "files.doctor",
    "identify": "files.identify",
    "explain": "specification.explain",
    "rules": "specification.rules",
    "decode": "files.decode",
    "encode": "files.encode",
    "convert": "files.convert",
    "quantize": "files.quantize",
    "import": "checkpoints.import_verb",
    "verify": "checkpoints.verify",
    "export": "checkpoints.export_verb",
    "fix": "files.fix",
    "sanitize": "files.sanitize",
    "census": "census",
    "hash": "files.hash",
    "diff": "files.diff",
    "new": "files.new",
    "demo": "demo",
    "run": "models.run",
    "perplexity": "models.perplexity",
    "embed": "models.embed",
    "golden": "models.golden",
    "fuzz": "fuzz",
    "vectors": "specification.vectors",
    "conform": "specification.conform",
    "schema": "specification.schema",
    "spec": "specification.spec",
    "info": "info",
    "completion": "shell.completion",
    "man": "shell.man",
}


class Verbs(click.Group):
    """A click group that imports the module of a verb when the verb is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb in VERBS if verb != "validate"]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"i2s_spec.cli.{VERBS[name]}").command
        gc.freeze()  # what was imported stays
        gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A verb by its name; of one that does not exist, those that are spelled like it."""
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, 3, 0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; `i2s --help` lists them"
            ctx.fail(f"there is no verb {quote(args[0])}{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "I2S"},
    epilog="Example:  i2s demo        (needs no file)",
)
@click.version_option(__version__, "--version", message="i2s-spec %(version)s")
def cli() -> None:
    """Read, check and make GGUF files with I2_S tensors (BitNet's ternary weights)."""
    if os.environ.get("I2S_ISA") or os.environ.get("I2S_HIDE"):
        from i2s_spec.codec import isa

        isa.check()


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit: the only place where exceptions become words and exit codes."""
    gc.disable()  # modules that are being imported leave no garbage; what runs then turns it on
    _open_streams()
    try:
        _main(args)
    finally:
        gc.enable()
        gc.freeze()  # the process ends: nobody needs to look at everything once more


def _main(args: list[str] | None) -> NoReturn:
    try:
        status = cli.main(args=args, prog_name="i2s", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Abort:
        _say("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _reader_has_gone()
    except FormatError as error:
        from i2s_spec.schema.faults import exit_code_of

        _say(_words(error))
        sys.exit(exit_code_of(error.code))
    except MemoryError:
        _say("there is not enough memory for this; nothing is said of the input")
        sys.exit(EXIT_MEMORY)
    except (MissingExtra, SettingError) as error:
        _say(str(error))
        sys.exit(EXIT_USAGE)
    except Unfinished as error:
        _say(str(error))
        sys.exit(EXIT_UNFINISHED)
    except OSError as error:
        name = f": {quote(os.fspath(error.filename), limit=4096)}" if error.filename is not None else ""
        _say(f"{error.strerror or error}{name}")
        sys.exit(EXIT_INPUT)
    except ImportError as error:
        _say(str(explained(error)))
        sys.exit(EXIT_BUG)
    except SystemExit:
        if not isinstance(sys.stdout, io.TextIOBase):  # click met a broken pipe, and wrapped it
            _reader_has_gone()
        raise
    except Exception as error:  # anything else is a bug of ours, and must say so
        if os.environ.get("I2S_DEBUG"):
            raise
        _say(f"internal error: {type(error).__name__}: {quote(str(error), bare=True)}")
        _say("this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback")
        sys.exit(EXIT_BUG)


def _open_streams() -> None:
    """Give streams that the caller closed a place where what is written goes nowhere.

    Their numbers are taken too: else the next file that is opened would get one, and messages would be written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        flags, mode = (os.O_RDONLY, "r") if number == 0 else (os.O_WRONLY, "w")
        try:
            os.fstat(number)
        except OSError:
            fd = os.open(os.devnull, flags)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def _reader_has_gone() -> NoReturn:
    """End quietly, as the shell's own tools do, also where Python flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os._exit(EXIT_BROKEN_PIPE)


def _show(error: click.ClickException) -> None:
    """What click says of a wrong call; it repeats the caller's words, which may come from a hostile folder."""
    from i2s_spec.draw.text import visible

    output = io.StringIO()
    error.show(output)
    for line in output.getvalue().rstrip("\n").split("\n"):
        click.echo(visible(line, limit=1 << 16, bare=True), err=True)


def _words(error: FormatError) -> str:
    """A fault with the file that it is in, where that is known: many calls read more than one."""
    from i2s_spec.draw.text import fault_words, visible

    name = f"{visible(error.file, 4096, bare=True)}: " if error.file is not None else ""
    return name + fault_words(error)


def _say(text: str) -> None:
    click.echo(f"i2s: {text}", err=True)
