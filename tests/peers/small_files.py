"""This module declares the small files that programs are run on, each by the `i2s` commands that make it.

The same commands give the same bytes on every machine, so the SHA-256 in a record identifies the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shlex
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.cli import cli

#: Sizes whose rows are whole blocks of every type.
_SIZES: Final = "--embd 256 --ff 512"


class Small(NamedTuple):
    """A file, and the commands that make it.

    :param name: architecture and type of its ternary matrices; `relu2` where the file states its activation
    :param commands: the commands that make it, in a separate folder
    :param means: names of files with the same weights whose meaning it may have to a program; the computed values are
        compared with our forward pass on these
    """

    name: str
    commands: tuple[str, ...]
    means: tuple[str, ...]

    @property
    def path(self) -> str:
        """The name on disk, in the folder in which the commands run."""
        return f"{self.name}.gguf"


def _new(architecture: str) -> str:
    return f"i2s new {architecture}.i2_s.gguf --arch {architecture} {_SIZES}"


def _files() -> dict[str, Small]:
    found = []
    for architecture, types in (
        ("llama", ("F32", "F16", "TQ1_0", "TQ2_0", "Q2_0", "Q2_0_G128", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN")),
        ("bitnet-b1.58", ("F32", "Q2_0")), ("bitnet", ("F32", "Q2_0", "TQ2_0")), ("qwen3", ("F32", "Q2_0")),
        ("qwen3-lm", ("F32", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0")),
        ("gemma3", ("F32", "Q2_0")),
    ):  # fmt: skip
        origin, stated = f"{architecture}.i2_s", f"{architecture}.i2_s.relu2"
        made = _new(architecture)
        means = (origin, stated) if architecture == "bitnet" else (origin,)
        found.append(Small(origin, (made,), means))
        for kind in types:
            name = f"{architecture}.{kind.lower()}"
            found.append(Small(name, (made, f"i2s convert {origin}.gguf {name}.gguf --to {kind}"), means))
        if architecture != "bitnet":
            continue
        key = "--hidden-activation relu2"
        found.append(Small(stated, (made, f"i2s convert {origin}.gguf {stated}.gguf {key}"), means))
        for kind in ("F32", "Q2_0"):
            name = f"{architecture}.{kind.lower()}.relu2"
            found.append(Small(name, (made, f"i2s convert {origin}.gguf {name}.gguf --to {kind} {key}"), means))
    return {each.name: each for each in found}


SMALL_FILES: Final = _files()


def make(folder: Path, file: Small) -> Path:
    """Make a file in a folder unless it exists; returns its path.

    :raises RuntimeError: if a command fails, with its output; any other exception is a bug
    """
    for command in file.commands:
        words = shlex.split(command)[1:]
        words = [str(folder / word) if word.endswith(".gguf") else word for word in words]
        target = [word for word in words if word.endswith(".gguf")][-1]
        if Path(target).exists():
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = cli.main([*words, "--quiet"], prog_name="i2s", standalone_mode=False)
        if status:
            raise RuntimeError(f"{command} ended with status {status}: {printed.getvalue()}")
    return folder / file.path


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
