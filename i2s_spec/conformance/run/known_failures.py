"""This module reads and writes lists of known failures, so that a run fails only for new failures and for an outdated list.

A line is `ID  # the beginning of the message`. A listed vector that passes, is skipped, fails with another message or
is not in the suite makes the run fail, so that the list stays true.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from i2s_spec.conformance.run.results import FAILURES, CaseResult, RunResult, Status
from i2s_spec.errors import SettingError, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.gguf.regular_file import read_regular

#: How much of a message is written to a list: its first figures, not what depends on the machine.
_PREFIX: Final = 100
#: No list is larger, in bytes.
_LARGEST: Final = 1 << 24


def read_list(path: str | Path) -> dict[str, str]:
    """The messages of a list by id; a missing file counts as an empty list.

    :raises SettingError: for a line that is not an entry, and for an id that occurs twice
    """
    found: dict[str, str] = {}
    try:
        lines = read_regular(path, _LARGEST).decode("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise SettingError(f"the list of known failures is not UTF-8 at byte {error.start:,}") from None
    for number, line in enumerate(lines, 1):
        id_, _, message = (part.strip() for part in line.partition("#"))
        if not id_:
            continue
        if len(id_.split()) != 1 or id_ in found:
            raise SettingError(
                f"line {number} of the list of known failures: {quote(line, limit=80)} is not `ID  # message`"
            )
        found[id_] = message
    return found


def apply(run: RunResult, known: dict[str, str], whole: bool) -> None:
    """Mark the failures that a list expects, and note where it is out of date.

    :param whole: whether all vectors were run; if not, listed vectors that were not run are not reported
    """
    results = {result.id: result for result in run.results}
    for id_, message in known.items():
        result = results.get(id_)
        if result is None:
            if whole:
                run.unexpected.append(f"{id_} is a known failure, and no vector has this id")
        elif result.status not in FAILURES:
            how = "passes" if result.status is Status.PASS else f"is {result.status}"
            run.unexpected.append(f"{id_} is a known failure, and {how}")
        elif not result.text.startswith(message):
            run.unexpected.append(f"{id_} is a known failure with another message: {result.text}")
        else:
            run.known.add(id_)


def write_list(run: RunResult, path: str | Path) -> int:
    """Write the failures of a run as the list; returns their number."""
    failed = [result for result in run.results if result.status in FAILURES]
    lines = [
        f"# Known failures of {quote(run.implementation.name, bare=True)}; `i2s conform run --fix` writes this list."
    ]
    lines += [f"{result.id}  # {_prefix(result)}" for result in failed]
    with OutputFile(path, force=True) as output:
        output.write(("\n".join(lines) + "\n").encode("utf-8"))
    return len(failed)


def _prefix(result: CaseResult) -> str:
    return result.text[:_PREFIX].replace("\n", " ").strip()
