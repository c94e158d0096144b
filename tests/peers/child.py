"""This module runs one program on one file, in a separate process with limits, and reads its answer.

A script in `children/` gets the names of an answer and of the file; if it is to compute, also tokens, the size of the
vocabulary and the number of a token that is a letter, or a text. It writes its answer as JSON: `loads`, `shown` (what
the program prints about the file), and for tokens `log_probabilities`, a row of the vocabulary for each. If a script
dies, its exit status and its last output are the answer, because that is what a user would see.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import i2s_spec as i2s
from i2s_spec.draw.text import visible
from i2s_spec.fuzzing.bounded_process import OUTPUT_BYTES, Bounds, Command, Outcome, run
from peers.programs import Program

#: Wall-clock seconds for one small file; processors may be busy.
SECONDS: Final = 120.0

#: llama.cpp's time and level before a line, and the name that node-llama-cpp puts there.
_STAMP: Final = re.compile(r"(?:\d+\.\d+\.\d+\.\d+ ([IWED]) |\[node-llama-cpp\] )\s*")
#: Lines of a stack trace of Python or JavaScript.
_TRACE: Final = r"\s|Traceback|file://|node:|Node\.js v|$"
#: Lines of a program that reports on its progress.
_NOISE: Final = re.compile(
    rf"{_TRACE}|(?:llm_load_\w+|print_info|load|CPU|Loading weights): |llama_model_loader: [-Dl]|={{5}}|-{{5}}|Layer +\d|"
    r"Total +:|Free memory |Memory |\.{5}|llama_init_from_model: n_"
)

#: Maximum size of an answer in bytes.
_ANSWER: Final = 32 << 20


class Answer(NamedTuple):
    """A program's result for a file. `log_probabilities` has a row for each requested token, `tokens` are those of a
    text; both are empty if not requested or not given. `printed` is `cleaned`.
    """

    outcome: Outcome
    loads: bool
    shown: str
    log_probabilities: list[list[float]]
    tokens: list[int]
    printed: tuple[str, ...]


def answer_of(
    program: Program, path: Path, tokens: Sequence[int] = (), text: str | None = None, flash: bool | None = None
) -> Answer:
    """Run a program on a file.

    :param tokens: for a computation: the tokens as numbers, so that no tokenizer affects the result
    :param text: for tokenization: the text to split
    :param flash: for xllamacpp, whether attention is computed in one operation; by default the program decides
    :raises RuntimeError: if the program is not installed
    :raises ValueError: for `flash` of another program
    """
    if flash is not None and program.name != "xllamacpp":
        raise ValueError(f"{program.name} has no switch for attention here; xllamacpp has")
    reason = program.missing()
    if reason is not None:
        raise RuntimeError(reason)
    vocabulary = _vocabulary(path) if tokens and path.suffix == ".gguf" else []
    letter = next((i for i, text in enumerate(vocabulary) if text.isalpha() and text.isascii()), 0)
    with tempfile.TemporaryDirectory(prefix="i2s-run-") as folder:
        answer = Path(folder) / "answer.json"
        words = [*program.command(), str(answer), "{}", json.dumps(list(tokens))]
        words += [str(len(vocabulary)), str(letter), *([] if text is None else [text])]
        words += [] if flash is None else ["on" if flash else "off"]
        outcome = run(Command(words), path.resolve(), Bounds(SECONDS, program.memory))
        found: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            if answer.stat().st_size <= _ANSWER:
                found = json.loads(answer.read_text(encoding="utf-8"))
    rows, split = found.get("log_probabilities") or [], found.get("tokens") or []
    return Answer(
        outcome, bool(found.get("loads")), str(found.get("shown", "")), rows, split, cleaned(outcome.stderr_tail, path)
    )


def cleaned(text: str, path: Path) -> tuple[str, ...]:
    """The program's output as lines that are equal on every machine: the first 8, of at most 300 characters.

    Notices, warnings, traces, duplicate lines, times and the file's folder are removed.
    """
    lines: list[str] = []
    whole = text.splitlines()[1 if len(text) >= OUTPUT_BYTES else 0 :]  # the first was cut
    for line in whole:
        found = _STAMP.match(line)
        plain = visible(line[found.end() if found else 0 :].replace(str(path.resolve()), path.name), 300, bare=True)
        if plain and not (found and found[1] in ("I", "W", "D")) and not _NOISE.match(line) and plain not in lines:
            lines.append(plain)
    return tuple(lines[:8])


def _vocabulary(path: Path) -> list[str]:
    with i2s.open(path) as file:
        return [str(text) for text in file.metadata["tokenizer.ggml.tokens"]]
