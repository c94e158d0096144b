"""The command line: one module per verb, each a thin face over a public function.

Verbs are imported when they are used, and click with them: `i2s --version`, and `i2s lint` as most call it, start
without. Results go to stdout, everything else to stderr. Exit codes: 0 nothing found, 1 findings, 2 usage, 3 input
unreadable or not GGUF, 4 our bug, 5 a server did not give the file; 71 where memory is short, 75 where a run over many
files ended early, 130 for Ctrl-C, 141 where the reader of a pipe has gone.
"""

import io
import os
import sys

TYPE_CHECKING = False  # as type checkers take it; `i2s --version` imports neither `typing` nor `__future__`
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from i2s_spec.cli.verbs import VERBS as VERBS
    from i2s_spec.cli.verbs import cli as cli


def __getattr__(name: str) -> "Any":
    if name not in ("VERBS", "cli"):
        raise AttributeError(f"module 'i2s_spec.cli' has no attribute {name!r}")
    from i2s_spec.cli import verbs

    return getattr(verbs, name)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit; `ending` has the words and exit codes of exceptions."""
    _open_streams()
    if (sys.argv[1:] if args is None else args) == ["--version"]:
        _main(args)  # which exits
    import gc

    gc.disable()  # modules that are being imported leave no garbage; what runs then turns it on
    try:
        _main(args)
    finally:
        gc.enable()
        gc.freeze()  # the process ends: nobody needs to look at everything once more


def program() -> "NoReturn":
    """Be the process of `i2s`: `main`, and the end of the process with its exit code.

    Python takes all modules and objects apart before it ends, which is a tenth of a short run; the system frees them
    at once.
    """
    try:
        main()
    except SystemExit as stop:
        _end(stop.code)
        raise
    raise AssertionError("main returned")


def _end(status: object) -> None:
    """End the process at once; return where something else is to be done before it ends, which Python then does."""
    if type(status) is not int or sys.implementation.name != "cpython" or "threading" in sys.modules:
        return
    if "atexit" in sys.modules:  # nobody has a function called at the end without it
        count = getattr(sys.modules["atexit"], "_ncallbacks", None)
        if count is None or count():
            return
    if sys.flags.inspect or sys.flags.dev_mode or sys.gettrace() is not None or sys.getprofile() is not None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python tries once more, and says so
        return
    os._exit(status)


def _main(args: list[str] | None) -> "NoReturn":
    try:
        status = _answer(sys.argv[1:], True) if args is None else _answer(list(args), False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except SystemExit:
        if not isinstance(sys.stdout, io.TextIOBase):  # click met a broken pipe, and wrapped it
            from i2s_spec.cli.ending import reader_has_gone

            reader_has_gone()
        raise
    except BaseException as error:
        from i2s_spec.cli.ending import end

        end(error)


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


def _answer(args: list[str], own_process: bool) -> object:
    """Do what the command line asks for, by click unless it is one of the two that start without; the exit code.

    :param own_process: this is no call from another program's Python
    """
    if args == ["--version"]:
        from i2s_spec._version import __version__

        print(f"i2s-spec {__version__}")
        return 0
    if own_process and sys.implementation.name == "cpython":  # whose import system it builds on
        from i2s_spec.quick_import import install

        install()
    if args[:1] in (["lint"], ["validate"]):
        from i2s_spec.cli.lint_calls.plain_call import plain_call

        call = plain_call(args[1:])
        if call is not None:
            return _plain_lint(args, *call)
    from i2s_spec.cli.verbs import by_click

    return by_click(args)


def _plain_lint(args: list[str], files: tuple[str, ...], given: "dict[str, Any]", sources: dict[str, str]) -> object:
    from i2s_spec.cli.starting import check_kernels, ready

    check_kernels()
    from i2s_spec.cli.lint_calls.lint_run import WrongCallError, lint_run

    ready()
    try:
        return lint_run(files, given, sources)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # as click does, below the ^C of a terminal
        raise
    except WrongCallError:  # found before anything is read or written; click shows it with the usage
        from i2s_spec.cli.verbs import by_click

        return by_click(args)
