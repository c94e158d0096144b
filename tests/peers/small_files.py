"""This module declares the small files that programs are run on, each by the `i2s` commands that make it.

The same commands give the same bytes on every machine, so the SHA-256 in a record identifies the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.cli import cli
from i2s_spec.schema.architectures import ARCHITECTURES
from peers.damage import Content

#: Sizes whose rows are whole blocks of every type; and sizes of which all rows have 512 elements or more.
_SIZES: Final = "--embd 256 --ff 512"
_WIDE: Final = "--embd 512 --ff 1024 --heads 8 --heads-kv 4"

#: llama.cpp's numbers of the file types that its library quantises to.
FILE_TYPES: Final = {"Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "Q6_K": 18}


class Small(NamedTuple):
    """A file, and the commands that make it.

    :param name: architecture and type of its ternary matrices; `relu2` where the file states its activation
    :param commands: the commands that make it, in a separate folder: of `i2s`, and of `python tests/peers`
    :param means: names of files with the same weights whose meaning it may have to a program, its own meaning first; the
        computed values are compared with our forward pass on these
    :param wide: whether it is run by programs that compute alone; the others are run by every program
    """

    name: str
    commands: tuple[str, ...]
    means: tuple[str, ...]
    wide: bool = False

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
        key, means = "--hidden-activation relu2", means[::-1]
        found.append(Small(stated, (made, f"i2s convert {origin}.gguf {stated}.gguf {key}"), means))
        for kind in ("F32", "Q2_0"):
            name = f"{architecture}.{kind.lower()}.relu2"
            found.append(Small(name, (made, f"i2s convert {origin}.gguf {name}.gguf --to {kind} {key}"), means))
    return {each.name: each for each in [*found, *_wide()]}


#: What is run with rows of 512 and 1,024 elements: types by architecture, and one feature at a time.
_WIDE_TYPES: Final = {
    "llama": ("I2_S", "F32", "F16", "BF16", "TQ1_0", "TQ2_0", "Q2_0", "Q2_0_G128", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN"),
    "qwen3-lm": ("I2_S", "F32", "F16", "TQ1_0", "TQ2_0", "Q2_0", "PTQ1_0", "IQ2_BN"),
    "bitnet": ("I2_S", "F16", "TQ1_0", "TQ2_0", "Q2_0", "IQ2_BN"),
    "bitnet-b1.58": ("I2_S", "F16", "TQ1_0", "TQ2_0", "Q2_0", "IQ2_BN"),
    "bitnet-25": ("I2_S", "IQ2_BN"),
    "qwen35": ("F32", "F16", "TQ1_0", "TQ2_0", "Q2_0"),
}  # fmt: skip
_QUANTISED: Final = {"llama": ("Q4_0", "Q8_0", "Q4_K_M", "Q6_K"), "qwen3-lm": ("Q8_0", "Q4_K_M")}
_ROTATED: Final = {
    "qwen3-lm": ("F16", "TQ2_0", "Q2_0", "PTQ1_0"), "llama": ("F16", "TQ2_0", "Q2_0", "PTQ1_0"),
    "qwen35": ("F16", "Q2_0")}  # fmt: skip
_CHANGED: Final = {
    "llama.f16.wide": (
        "tied", "table-f32", "table-bf16", "rope-factors", "rope-linear", "bias", "scales", "experts", "sub-norms",
        "mxfp4", "nvfp4",
    ),
    "llama.tq2_0.wide": ("tied", "rope-factors"),
    "qwen3-lm.f16.wide": ("window",),
}  # fmt: skip
_TRAINED: Final = {
    "llama": ("I2_S", "F32", "F16", "BF16", "TQ2_0", "Q2_0"),
    "bitnet-b1.58": ("I2_S", "F16", "TQ1_0", "TQ2_0", "Q2_0"),
}


def _wide_of(architecture: str) -> str:
    """The sizes; of models with layers of two kinds, one of each: llama.cpp ends at an assertion where one is missing."""
    return f"{_WIDE} --layers 2" if ARCHITECTURES[architecture].delta_nets else _WIDE


def _wide() -> Iterator[Small]:
    """Files of which each differs in one thing from another."""
    for architecture, types in _WIDE_TYPES.items():
        for kind in types:
            name = f"{architecture}.{kind.lower()}.wide"
            made = f"i2s new {name}.gguf --arch {architecture} {_wide_of(architecture)} --type {kind}"
            means = (name, f"{name}.relu2") if architecture == "bitnet" else (name,)
            yield Small(name, (made,), means, True)
            if architecture == "bitnet":
                command = f"i2s convert {name}.gguf {name}.relu2.gguf --hidden-activation relu2"
                yield Small(f"{name}.relu2", (made, command), means[::-1], True)
            for change in _CHANGED.get(name, ()):
                other = name.removesuffix(".wide") + f".{change}"
                yield Small(other, (made, f"peers change {name}.gguf {other}.gguf {change}"), (other,), True)
        for kind in _QUANTISED.get(architecture, ()):
            origin, name = f"{architecture}.f16.wide", f"{architecture}.{kind.lower()}.wide"
            made = f"i2s new {origin}.gguf --arch {architecture} {_WIDE} --type F16"
            yield Small(name, (made, f"peers quantise {origin}.gguf {name}.gguf {kind}"), (name,), True)
        for kind in _ROTATED.get(architecture, ()):
            name = f"{architecture}.{kind.lower()}.rotated"
            head = " --head untied" if architecture == "llama" else ""
            made = f"i2s new {name}.gguf --arch {architecture} {_wide_of(architecture)} --type {kind} --rotated{head}"
            yield Small(name, (made,), (name,), True)
    yield Small("bitnet-25.i2_s", (_new("bitnet-25"),), ("bitnet-25.i2_s",), True)
    untied = "qwen3-lm.ptq1_0.rotated-untied"
    made = f"i2s new {untied}.gguf --arch qwen3-lm {_WIDE} --type PTQ1_0 --rotated --head untied"
    yield Small(untied, (made,), (untied,), True)
    origin = "bitnet-b1.58.i2_s.wide"
    made = f"i2s new {origin}.gguf --arch bitnet-b1.58 {_WIDE} --type I2_S"
    for kind in ("TQ1_0", "TQ2_0", "Q2_0"):  # one scale for each matrix, unlike new ones
        name = f"bitnet-b1.58.{kind.lower()}.converted"
        yield Small(name, (made, f"i2s convert {origin}.gguf {name}.gguf --to {kind}"), (name,), True)
    for architecture, types in _TRAINED.items():
        for kind in types:
            name = f"trained.{architecture}.{kind.lower()}"
            made = f"i2s new {name}.gguf --trained --arch {architecture} --type {kind}"
            yield Small(name, (made,), (name,), True)
    name = "trained.llama.f16.rope-factors"
    made = "i2s new trained.llama.f16.gguf --trained --arch llama --type F16"
    yield Small(name, (made, f"peers change trained.llama.f16.gguf {name}.gguf rope-factors"), (name,), True)
    for architecture in ("llama", "bitnet-b1.58", "bitnet-25", "bitnet"):
        name = f"{architecture}.i2_s.default"
        means = (name, f"{name}.relu2") if architecture == "bitnet" else (name,)
        yield Small(name, (f"i2s new {name}.gguf --arch {architecture}",), means, True)
    command = f"i2s convert {name}.gguf {name}.relu2.gguf --hidden-activation relu2"
    yield Small(f"{name}.relu2", (f"i2s new {name}.gguf --arch bitnet", command), (f"{name}.relu2", name), True)
    name = "llama.i2_s.default.table-f32"
    changed = f"peers change llama.i2_s.default.gguf {name}.gguf table-f32"
    yield Small(name, ("i2s new llama.i2_s.default.gguf --arch llama", changed), (name,), True)
    gemma = "--embd 640 --ff 2048 --heads 4 --heads-kv 1 --head-dim 256 --layers 1"
    made = f"i2s new gemma3.f16.wide.gguf --arch gemma3 {gemma} --vocab 512 --type F16"
    language = ("gemma3-lm.f16.wide", "peers change gemma3.f16.wide.gguf gemma3-lm.f16.wide.gguf language")
    yield Small(language[0], (made, language[1]), (language[0],), True)
    for kind in ("Q8_0", "Q4_K_M"):
        name = f"gemma3-lm.{kind.lower()}.wide"
        yield Small(name, (made, language[1], f"peers quantise {language[0]}.gguf {name}.gguf {kind}"), (name,), True)


SMALL_FILES: Final = _files()


def smallest_files() -> Iterator[Small]:
    """The smallest file of each architecture that llama.cpp loads and that is not declared here."""
    from peers.arch_tables.command import SHIPPED, read_table

    for name in read_table(SHIPPED)["arch"]:
        if name not in ARCHITECTURES:
            small = f"smallest.{name}"
            yield Small(small, (f"i2s new {small}.gguf --arch {name}",), (small,), True)


def make(folder: Path, file: Small) -> Path:
    """Make a file in a folder unless it exists; returns its path.

    :raises RuntimeError: if a command fails, with its output; any other exception is a bug
    """
    for command in file.commands:
        program, *words = shlex.split(command)
        words = [str(folder / word) if word.endswith(".gguf") else word for word in words]
        target = [word for word in words if word.endswith(".gguf")][-1]
        if Path(target).exists():
            continue
        if program == "peers":
            of_peers(words)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = cli.main([*words, "--quiet"], prog_name="i2s", standalone_mode=False)
        if status:
            raise RuntimeError(f"{command} ended with status {status}: {printed.getvalue()}")
    return folder / file.path


def of_peers(words: Sequence[str]) -> None:
    """Make a copy of a file: `change IN OUT NAME`, or `quantise IN OUT TYPE` by llama.cpp's library.

    :raises RuntimeError: if the library is not installed or fails
    """
    action, source, target, what = words
    if action == "change":
        from peers.features import CHANGES

        CHANGES[what](Content.read(source)).write(Path(target))
        return
    from peers.judge import LIBRARY, missing

    if (reason := missing()) is not None:
        raise RuntimeError(reason)
    script = Path(__file__).parent / "children" / "quantize_llama_cpp.py"
    job = json.dumps({"source": source, "target": target, "file_type": FILE_TYPES[what]})
    words = [sys.executable, str(script), str(LIBRARY.folder / "node_modules" / LIBRARY.name)]
    done = subprocess.run(words, input=job + "\n", capture_output=True, encoding="utf-8", check=False)
    if done.stdout.strip() != "0":
        raise RuntimeError(f"llama.cpp does not quantise {source} to {what}: {done.stderr[-500:]}")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
