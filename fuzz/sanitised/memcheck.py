"""The installed scanner under valgrind's memcheck, on the stored inputs, the malformed files, and long strings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from extensions import ROOT, BuildError

from i2s_spec.errors import counted

HERE = Path(__file__).resolve().parent

#: Python's creation of an int reads the digit of a zero, which is uninitialized, and multiplies it by 0.
ODD_INT: Final = "_PyLong_New"

#: Larger malformed files test nothing new of the scanner, and take long.
MOST: Final = 50_000


def run(folder: Path) -> int:
    """Replay under memcheck; 0 if it reports nothing.

    :raises BuildError: if valgrind is missing
    """
    inputs = folder / "inputs"
    shutil.rmtree(inputs, ignore_errors=True)
    inputs.mkdir()
    for number, data in enumerate(files()):
        (inputs / f"{number:04}.gguf").write_bytes(data)
    began = time.monotonic()
    errors = watched([sys.executable, str(HERE / "replay.py"), str(inputs)], "/i2s_spec/gguf/", folder)
    what = f"{counted(len(errors), 'error')} in {counted(number + 1, 'file')}"
    print(f"valgrind: {what} ({time.monotonic() - began:.0f} s)", *errors, sep="\n")
    return 1 if errors else 0


def watched(words: list[str], ours: str, folder: Path, more: dict[str, str] | None = None) -> list[str]:
    """Run a command under memcheck: the errors in libraries whose path contains `ours`.

    :param more: environment variables
    :raises BuildError: if valgrind is missing
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BuildError("there is no valgrind")
    log = folder / "valgrind.xml"
    options = ["--tool=memcheck", "--leak-check=no", "--track-origins=yes", "--num-callers=40"]
    settings = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONDONTWRITEBYTECODE": "1"} | (more or {})
    done = subprocess.run(
        [valgrind, "-q", *options, "--xml=yes", f"--xml-file={log}", *words], env=settings, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        return [f"ended by status {done.returncode}: {done.stderr[-2000:]}"]
    try:
        found = ElementTree.parse(log).getroot().iter("error")
    except ElementTree.ParseError as error:
        return [f"{log.name}: {error}"]
    return [_described(error) for error in found if _counts(error, ours)]


def _counts(error: ElementTree.Element, ours: str) -> bool:
    """Whether an error is in this package's code, and is not about Python's ints or memory that Python never frees."""
    if error.findtext("kind") in ("Leak_PossiblyLost", "Leak_StillReachable", "Leak_IndirectlyLost"):
        return False
    of_ours = any(ours in (frame.text or "") for frame in error.iter("obj"))
    return of_ours and all(frame.text != ODD_INT for frame in error.iter("fn"))


def _described(error: ElementTree.Element) -> str:
    """An error as text: its kind, and its stack from the innermost call on."""
    lines = []
    for part in error:
        if part.tag in ("what", "auxwhat"):
            lines.append(part.text or "")
        elif part.tag in ("xwhat", "xauxwhat"):
            lines.append(part.findtext("text") or "")
        elif part.tag == "stack":
            for frame in list(part)[:12]:
                where = f"{frame.findtext('file')}:{frame.findtext('line')}" if frame.find("line") is not None else ""
                lines.append(f"    {frame.findtext('fn') or '?'} {where or frame.findtext('obj') or ''}".rstrip())
    return "\n".join(lines)


def files() -> Iterator[bytes]:
    """The stored inputs of all harnesses, the malformed files, and arrays that span the ends of windows."""
    from i2s_spec.schema.types import ValueType
    from i2s_spec.testing.malformed import malformed
    from i2s_spec.testing.sample import Draft, array, key_value

    for folder_name in ("corpus", "regressions"):
        for path in sorted((ROOT / "fuzz" / folder_name).rglob("*")):
            if path.is_file():
                yield path.read_bytes()
    yield from (case.data for case in malformed() if len(case.data) <= MOST)
    for order, texts in (("little", 9_000), ("big", 3)):
        draft = Draft(order)  # type: ignore[arg-type]
        file = draft.records()
        words = [b"", b"\xe2\x82\xac" * 700, b"\xff", b"a b", b"<0x0", b"[PAD1]", b"\xed\xa0\x80", b"x" * 70_000]
        strings = [words[i % 7] for i in range(texts)] + words
        file.key_values += [
            key_value(b"long.strings", ValueType.ARRAY, array(ValueType.STRING, strings)),
            key_value(b"long.bools", ValueType.ARRAY, array(ValueType.BOOL, [1] * 70_001)),
            key_value(b"long.integers", ValueType.ARRAY, array(ValueType.INT32, [3] * 70_001)),
            key_value(b"long.text", ValueType.STRING, b"\xf0\x9f\x98\x80" * 400_000),
        ]
        yield draft.built(file)
