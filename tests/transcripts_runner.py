"""Golden transcripts: files under `tests/transcripts/` with commands and exactly what they print.

    # What is to be seen here, and where the input comes from: comments stand at the top only.
    $ i2s show sample.gguf
    sample.gguf  GGUF version 3, little-endian
    ...
    stderr: i2s: sample.gguf: ...
    [exit 1]

Lines of stderr follow those of stdout; a line of output that begins with `$ ` has a backslash before it. Commands run
in this process, in a folder that holds the files of `FILES`, made anew in a fixed way, and `real/` and `vectors/`, the
files of other projects; a transcript that needs those is skipped where they are missing. `pytest --write-transcripts`
writes what is printed now; read the difference before it is kept. How many rules were checked is not compared.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from i2s_spec.cli.replay import ran, same_output, without_counts
from i2s_spec.testing.sample import Draft

FOLDER = Path(__file__).resolve().parent / "transcripts"

#: The same folder as conftest's `shared`, needed here before fixtures exist.
SHARED = Path(os.environ.get("I2S_SHARED") or FOLDER.parent.parent.parent / "shared")


def _sample(change: Callable[[Draft], bytes]) -> Callable[[], bytes]:
    return lambda: change(Draft())


def _strange(draft: Draft) -> bytes:
    """Text that would act on a terminal: escape sequences, bidirectional marks, a NUL, bytes that are not UTF-8."""
    file = draft.records()
    file.key_values[0].key = b"general.\x1b[2Jarchitecture"
    file.key_values[1].value = "\x1b]52;c;aGk=\x07\u202egnp.exe\u2066".encode()
    file.key_values[5].value["items"] = [b"\xff\xfe", b"a\0b", "\u3164\ufe0f".encode()]
    file.tensor_infos[1].name = b"first\r\n\x9b31m.weight"
    return draft.built(file)


def _misplaced(draft: Draft) -> bytes:
    """Tensors that cannot be read: an unknown type, rows that are not whole blocks, data after the end."""
    file = draft.records()
    file.tensor_infos[0].type = 99
    file.tensor_infos[1].type = 12
    file.tensor_infos[2].offset = 1 << 40
    return draft.built(file)


#: Small files that transcripts name, and functions that make them.
FILES: dict[str, Callable[[], bytes]] = {
    "sample.gguf": _sample(lambda draft: draft.data),
    "big-endian.gguf": lambda: Draft("big").data,
    "strange.gguf": _sample(_strange),
    "misplaced.gguf": _sample(_misplaced),
    "cut-keys.gguf": _sample(lambda draft: draft.data[:200]),
    "cut-data.gguf": _sample(lambda draft: draft.data[:-200]),
    "bad-alignment.gguf": _sample(lambda draft: _aligned(draft, 48)),
    "too-many.gguf": _sample(lambda draft: draft.number("header.tensor_count", 1 << 40)),
    "page.gguf": lambda: b"<!DOCTYPE html><html><body>Entry not found</body></html>",
    "empty.gguf": lambda: b"",
}


def _aligned(draft: Draft, alignment: int) -> bytes:
    from i2s_spec.schema.types import ValueType
    from i2s_spec.testing.sample import key_value

    file = draft.records()
    file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, alignment))
    return draft.built(file)


def real_files() -> list[Path]:
    """The files of other projects, as far as they are there."""
    return sorted(path for pattern in ("vectors/gguf/*", "real/*.gguf") for path in SHARED.glob(pattern))


def workshop(folder: Path) -> Path:
    """A folder with the files that transcripts name."""
    for name, make in FILES.items():
        (folder / name).write_bytes(make())
    for name, source in (("real", SHARED / "real"), ("vectors", SHARED / "vectors" / "gguf")):
        if source.is_dir():
            (folder / name).symlink_to(source)
    return folder


def run(command: str, folder: Path) -> str:
    """What a command line prints, run in a folder: stdout, the lines of stderr, and the exit code if it is not 0."""
    program, *arguments = shlex.split(command)
    assert program == "i2s", command
    done = ran(arguments, folder)
    text = done.stdout.decode() + "".join(f"stderr: {line}\n" for line in done.stderr.decode().splitlines())
    return text + (f"[exit {done.returncode}]\n" if done.returncode else "")


def replay(transcript: Path, folder: Path) -> tuple[str, str]:
    """A transcript as it stands, and as its commands print it now."""
    kept = transcript.read_text(encoding="utf-8")
    now = ""
    for line in kept.splitlines():
        if line.startswith("$ "):
            _need(line, folder)
            now += f"{line}\n" + re.sub(r"^(?=\\*\$ )", r"\\", run(line[2:], folder), flags=re.MULTILINE)
        elif line.startswith("#") and "$ " not in now:
            now += f"{line}\n"
    return kept, now


def _need(command: str, folder: Path) -> None:
    for word in shlex.split(command):
        if word.startswith(("real/", "vectors/")) and not (folder / word.split("/")[0]).is_dir():
            pytest.skip("no reference files: set I2S_SHARED, or put them into shared/ beside the checkout")


def check(transcript: Path, folder: Path, write: bool) -> None:
    """Hold a transcript to what its commands print, or write it anew."""
    kept, now = replay(transcript, folder)
    if same_output(kept, now):
        return
    if write:
        transcript.write_text(now, encoding="utf-8")
    else:
        kept, now = map(without_counts, (kept, now))
        difference = unified_diff(kept.splitlines(), now.splitlines(), transcript.name, "now", lineterm="", n=1)
        advice = "if that is meant: pytest --write-transcripts, and read git diff"
        pytest.fail("\n".join([*difference, advice]), pytrace=False)


def transcripts(*prefixes: str) -> list[Path]:
    """The transcripts whose names begin with one of the prefixes."""
    return sorted(path for path in FOLDER.glob("*.txt") if path.name.startswith(prefixes))
