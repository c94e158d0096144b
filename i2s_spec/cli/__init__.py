"""The command line: one module for a verb or two that belong together, each a thin face over public functions.

    process       exceptions as words and exit codes, cleaning up after a signal, progress bars
    verbs         the group of all verbs; the command as it was typed
    options       what verbs share: --format, the options of lint, networks, files that are written
    model_input   what verbs share that run a model
    completion    completion; what may stand at the end of a line

    lint          lint, with cluster: runs on an engine, and census
    look          show, dump, info          identify      identify         doctor   doctor
    compare       diff, hash                repair        fix, sanitize    convert  convert, quantize
    arrays        decode, encode            new           new, demo        fuzz     fuzz
    checkpoints   import, export, verify    run           run, and chat    golden   golden record, compare
    perplexity    perplexity, embed         conform       conform, vectors
    rules         rules, explain, schema, spec; rule_pages writes the pages of rules
    replay        a command line in this process, for pages, examples and tests

Verbs are imported when they are used, and click with them: `i2s --version` starts without. Results go to stdout,
everything else to stderr. `errors.EXIT_CODES` has the exit codes.
"""

import io
import os
import sys

TYPE_CHECKING = False  # as type checkers take it; `i2s --version` does not import `typing`
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from i2s_spec.cli.verbs import VERBS as VERBS
    from i2s_spec.cli.verbs import cli as cli


def __getattr__(name: str) -> "Any":
    if name not in ("VERBS", "cli"):
        raise AttributeError(f"module 'i2s_spec.cli' has no attribute {name!r}")
    from i2s_spec.cli import verbs

    return getattr(verbs, name)


def main(args: list[str] | None = None) -> "NoReturn":
    """Run the command line and exit; `process` has the words and exit codes of exceptions."""
    _open_streams()
    try:
        status = _answer(sys.argv[1:] if args is None else list(args))
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except SystemExit:
        if not isinstance(sys.stdout, io.TextIOBase):  # click met a broken pipe, and wrapped it
            from i2s_spec.cli.process import reader_has_gone

            reader_has_gone()
        raise
    except BaseException as error:
        from i2s_spec.cli.process import end

        end(error)


def _answer(args: list[str]) -> object:
    """Do what the command line asks for, and return the exit code."""
    if args == ["--version"]:  # without click
        from i2s_spec._version import __version__

        print(f"i2s-spec {__version__}")
        return 0
    from i2s_spec.cli.verbs import by_click

    return by_click(args)


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
