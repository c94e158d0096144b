"""The verdict of llama.cpp's own library on files: loaded with check_tensors on, and a few tokens decoded.

    >>> judge([Path("sound.gguf"), Path("damaged.gguf")])
    [Verdict(word='load', message=''), Verdict(word='refuse', message="check_tensor_dims: tensor ... not found")]

The library runs in a separate process (`children/judge_llama_cpp.py`), which takes another one for each file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from peers.programs import PROGRAM

LIBRARY: Final = PROGRAM["@node-llama-cpp/linux-x64"]

#: Tokens that are decoded.
TOKENS: Final = 4

#: In the place of a number of tokens: load the vocabulary alone.
VOCABULARY: Final = -1

#: `load`; `refuse`: no model, or no values; `nan`: values that are not finite; `died`: the process ended, or was ended.
Word = Literal["load", "refuse", "nan", "died"]


class Verdict(NamedTuple):
    """What llama.cpp makes of a file, and its message where it refuses."""

    word: Word
    message: str

    @property
    def bad(self) -> bool:
        """Whether the file is of no use to llama.cpp."""
        return self.word != "load"


def missing() -> str | None:
    """Why nothing can be judged, or None if it can."""
    return LIBRARY.missing()


def judge(paths: Sequence[Path], tokens: int = TOKENS) -> list[Verdict]:
    """The verdicts on files, in their order.

    :param tokens: decoded after the file was loaded; 0 to load only, `VOCABULARY` to load no tensors
    :raises RuntimeError: if the library is missing or ends before the last file
    """
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    script = Path(__file__).parent / "children" / "judge_llama_cpp.py"
    package = LIBRARY.folder / "node_modules" / LIBRARY.name
    done = subprocess.run(
        [sys.executable, str(script), str(package), str(tokens)], check=False, capture_output=True, encoding="utf-8",
        input="".join(f"{path.resolve()}\n" for path in paths),
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(paths):
        raise RuntimeError(f"llama.cpp's library ended with status {done.returncode}: {done.stderr[-1000:]}")
    return [Verdict(answer["verdict"], answer["message"]) for answer in answers]
