"""The process of `i2s`: its end after an error or a signal, and its progress bar.

`end` is the only place where exceptions become messages and exit codes. `cleaned_up` lets a verb that a signal ends
clean up what it was writing, and `progress_bar` shows how far long work is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

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
    RecordError,
    SettingError,
    TooManyFiles,
    Unfinished,
    is_too_many_files,
    quote,
)


def end(failure: BaseException) -> NoReturn:
    """Print the message of an exception, and exit with its code.

    :raises SystemExit: with the exit code of the exception
    :raises BaseException: the same exception, if it is a bug of ours and I2S_DEBUG is set
    """
    try:
        raise failure
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        reader_has_gone()
    except FormatError as error:
        from i2s_spec.schema.faults import exit_code_of

        _say(_words(error))
        sys.exit(exit_code_of(error.code))
    except MemoryError as error:
        _short(str(error) if isinstance(error, TooManyFiles) else "there is not enough memory")
    except (MissingExtra, SettingError) as error:
        _say(str(error))
        sys.exit(EXIT_INPUT if isinstance(error, RecordError) else EXIT_USAGE)
    except Unfinished as error:
        _say(str(error))
        sys.exit(EXIT_UNFINISHED)
    except OSError as error:
        if is_too_many_files(error):  # whatever was opened then is not to blame
            _short(str(TooManyFiles()))
        name = f"{quote(os.fspath(error.filename), 4096, bare=True)}: " if error.filename is not None else ""
        _say(f"{name}{error.strerror or error}")
        sys.exit(EXIT_INPUT)
    except ImportError as error:
        _say(str(error))
        sys.exit(EXIT_BUG)
    except Exception as error:  # anything else is a bug of ours, and must say so
        if str(error) == "can't start new thread":  # of `threading`, which has no class of its own for it
            _short("no further thread can be started (ulimit -u, or a limit of the container, allows more)")
        if os.environ.get("I2S_DEBUG"):
            raise
        _say(f"internal error: {type(error).__name__}: {quote(str(error), bare=True)}")
        _say("this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback")
        sys.exit(EXIT_BUG)


def _short(what: str) -> NoReturn:
    """Print that memory, files or threads ran short, and exit."""
    _say(f"{what}; this says nothing about the input")
    sys.exit(EXIT_MEMORY)


def reader_has_gone() -> NoReturn:
    """End quietly, as the shell's own tools do, also where Python flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os._exit(EXIT_BROKEN_PIPE)


def _words(error: FormatError) -> str:
    """Return a fault with the file that it is in, where that is known: many calls read more than one."""
    from i2s_spec.draw.text import fault_words, visible

    name = f"{visible(error.file, 4096, bare=True)}: " if error.file is not None else ""
    return name + fault_words(error)


def _say(text: str) -> None:
    print(f"i2s: {text}", file=sys.stderr, flush=True)


# --- signals that end the process ------------------------------------------------------------------------------------

#: Signals that end a program which cleans up: by time limits and job runners, and by a terminal that is closed.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # what a shell reports of a process that this signal ended


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Make SIGTERM and SIGHUP leave through every `with` and `finally`.

    Without it the process is gone at once, and the unfinished file under its temporary name stays. A signal that the
    caller has switched off, as `nohup` does, stays off.
    """
    before: list[tuple[signal.Signals, Any]] = []
    try:
        for each in _ENDING:
            if signal.getsignal(each) is not signal.SIG_IGN:
                before.append((each, signal.signal(each, _end)))
    except ValueError:  # not in the main thread, which alone may say what signals do
        yield
        return
    try:
        yield
    finally:
        for each, handler in before:
            signal.signal(each, handler)


# --- progress --------------------------------------------------------------------------------------------------------
# A bar on stderr while it is a terminal, and nothing anywhere else.

#: A bar is shown for what takes longer, in seconds.
PATIENCE = 0.5

#: Called with how much is done, how much there is to do, and perhaps a remark that stands behind the bar.
Progress = Callable[..., object]


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Progress | None]:
    """Provide a bar of bytes that goes away when the work is done; None where nobody would see it.

    :param what: the word before the bar, such as `converting`
    """
    with _bar(what, None, ("DownloadColumn", "TimeRemainingColumn"), quiet) as advance:
        yield advance


@contextmanager
def counting_bar(what: str, total: int | None, quiet: bool = False, forks: bool = False) -> Iterator[Progress | None]:
    """Provide a bar that counts tokens, chunks or files; None where nobody would see it, or there is next to nothing
    to do.

    :param total: how many there are; None for a bar that only moves, until it is told how much there is in all
    :param forks: processes are started meanwhile: the bar is drawn by the calling thread alone
    """
    time = ("TimeRemainingColumn" if total is not None else "TimeElapsedColumn",)
    counts = ("MofNCompleteColumn", *time) if total is not None or forks else ()
    with _bar(what, total, counts, quiet or (total is not None and total < 2), forks) as advance:
        yield advance


@contextmanager
def _bar(
    what: str, total: int | None, columns: Iterable[str], quiet: bool, forks: bool = False
) -> Iterator[Progress | None]:
    """Provide a bar on stderr.

    :param columns: names of rich's columns behind the bar
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    shown = (
        progress.TextColumn(what),
        progress.BarColumn(),
        *(getattr(progress, name)() for name in columns),
        progress.TextColumn("{task.fields[remark]}"),
    )
    # What is written to stdout meanwhile is a result, and must not be drawn into as if it were the terminal's.
    with progress.Progress(
        *shown, console=Console(stderr=True), auto_refresh=not forks, transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task("", total=total, remark="")
        yield lambda done, of=None, remark="": bar.update(task, completed=done, total=of, remark=remark, refresh=forks)


class Bar:
    """A progress bar that comes when reading takes long, and goes for every report that is printed."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._shown = ExitStack()
        self._advance: Callable[[int, int], object] | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._advance is None:
            if monotonic() - self._began < PATIENCE:
                return
            self._advance = self._shown.enter_context(progress_bar("reading")) or (lambda done, total: None)
        self._advance(done, total)

    def hide(self) -> None:
        """Take the bar away; the next file may bring it back."""
        self._shown.close()
        self._began, self._advance = monotonic(), None
