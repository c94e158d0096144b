"""This module ends a process of `i2s` that failed: the only place where exceptions become words and exit codes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from i2s_spec import explained
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
    Unfinished,
    quote,
)


def end(failure: BaseException) -> NoReturn:
    """Say what went wrong, and exit.

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
    except MemoryError:
        _say("there is not enough memory; this says nothing about the input")
        sys.exit(EXIT_MEMORY)
    except (MissingExtra, SettingError) as error:
        _say(str(error))
        sys.exit(EXIT_INPUT if isinstance(error, RecordError) else EXIT_USAGE)
    except Unfinished as error:
        _say(str(error))
        sys.exit(EXIT_UNFINISHED)
    except OSError as error:
        name = f"{quote(os.fspath(error.filename), 4096, bare=True)}: " if error.filename is not None else ""
        _say(f"{name}{error.strerror or error}")
        sys.exit(EXIT_INPUT)
    except ImportError as error:
        _say(str(explained(error)))
        sys.exit(EXIT_BUG)
    except Exception as error:  # anything else is a bug of ours, and must say so
        if os.environ.get("I2S_DEBUG"):
            raise
        _say(f"internal error: {type(error).__name__}: {quote(str(error), bare=True)}")
        _say("this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback")
        sys.exit(EXIT_BUG)


def reader_has_gone() -> NoReturn:
    """End quietly, as the shell's own tools do, also where Python flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os._exit(EXIT_BROKEN_PIPE)


def _words(error: FormatError) -> str:
    """A fault with the file that it is in, where that is known: many calls read more than one."""
    from i2s_spec.draw.text import fault_words, visible

    name = f"{visible(error.file, 4096, bare=True)}: " if error.file is not None else ""
    return name + fault_words(error)


def _say(text: str) -> None:
    print(f"i2s: {text}", file=sys.stderr, flush=True)
