"""The command line: for any arguments and any file, it ends with a documented exit code and prints no control character.

The first line of an input contains the arguments, separated by spaces; `@` stands for the file. The rest is the file,
which is also the standard input. A first word that begins with `=` names the file. A valid file and a folder of two
files lie beside it.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from harness import answered, broken, changed, emptied, replayed, search

from i2s_spec.cli import VERBS
from i2s_spec.testing.sample import Draft

#: Verbs that read a user's file; the others take long, talk, or open a server.
_GIVEN = (
    "lint", "show", "dump", "identify", "hash", "decode", "convert", "fix", "diff", "info", "rules", "explain", "sanitize",
)  # fmt: skip
READERS = [verb for verb in _GIVEN if verb in VERBS]

WORDS = [
    "@", "@", "-q", "--json", "--format", "json", "sarif", "text", "--profile", "security", "strict", "--help", "--to",
    "--dialect", "canonical", "interleave-64/", "--payload", "none", "--tensor", "0", "-1", "G001", "--dry-run", "",
    "--width", "99999999999", "\x1b[2J", "--limit", "keys=1", "nan", "--offset", "0x10", "\udcff", "-", "--",
]  # fmt: skip


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    head, _, content = data.partition(b"\n")
    words = [word.replace("\0", "") for word in os.fsdecode(head[:400]).split(" ")]
    name = "in.gguf"
    if words[0].startswith("="):
        name = "".join(char for char in words.pop(0)[1:40] if char.isprintable() and char != "/").strip(".") or name
    if not words or words[0] not in READERS:
        words = [READERS[len(head) % len(READERS)], *words[1:]]
    folder = emptied()
    _furnish(folder)
    (folder / name).write_bytes(content)
    _, out, err = answered([_meant(word, name) for word in words], folder, content)
    for text in (out, err):
        assert not any(ord(char) < 32 and char not in "\n\t\r" for char in text), "a control character"
    assert (folder / name).read_bytes() == content or {
        "-o",
        "--output",
        "--report",
        "--baseline",
        "convert",
        "decode",
    } & set(words)


def _meant(word: str, name: str) -> str:
    """A word with the file's name filled in; `@@` is a list of that name, `@-` standard input.

    No word names a path outside the folder: verbs read whole folders, and other processes write into those around it.
    """
    word = word.replace("..", "empty")
    word = "=".join(part.lstrip("/") if part.startswith("/") else part for part in word.split("="))
    return word if word == "@-" else f"@{name}" if word == "@@" else word.replace("@", name, 1)


def _furnish(folder: Path) -> None:
    """Write the files beside the input."""
    (folder / "sound.gguf").write_bytes(Draft().data)
    (folder / "more").mkdir()
    (folder / "more" / "a.gguf").write_bytes(Draft("big").data)
    (folder / "more" / "b.gguf").write_bytes(Draft().data[:100])
    (folder / "empty").mkdir()


@replayed("command_line")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_every_reader_on_broken_files() -> None:
    files = [*broken(2_000, every=6), *changed(20, seed=4)]
    for i, data in enumerate(files):
        one_input(f"{READERS[i % 6]} @".encode() + b"\n" + data)


def test_random_arguments() -> None:
    chance = Random(5)
    for data in changed(60, seed=5):
        words = " ".join([chance.choice(READERS), *chance.choices(WORDS, k=chance.randrange(5))])
        one_input(os.fsencode(words) + b"\n" + data)


if __name__ == "__main__":
    search(one_input, behind=b"\n")
