"""The trained models: as bytes, as open files, and written in any form that conversions support.

The files are read from the package; nothing is written to disk. Verbs without a file use `open_trained`.

    >>> with open_trained() as file:
    ...     file.name, file.metadata["general.architecture"], len(file.tensors)
    ('stories.gguf, which comes with i2s-spec', 'bitnet-b1.58', 46)

`card` gives the data, sizes, losses and digests of a model.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import quote
from i2s_spec.schema.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from i2s_spec.convert.convert_file import Conversion
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.source import BufferSource
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.schema.dialect import Dialect
    from i2s_spec.schema.faults import ByteOrder


# --- card ------------------------------------------------------------------------------------------------------------
# The cards of the trained models are kept beside each file as JSON.

HERE: Final = Path(__file__).parent

#: The models, and the architectures with which each can be written.
MODELS: Final = {
    "stories": ("bitnet-b1.58", "bitnet-25", "bitnet"),
    "llama": ("llama",),
}

#: The model that verbs use if no file is given.
DEFAULT: Final = "stories"
#: Its default prompt: the tokens of "One morning", because encoding needs an extra.
OPENING: Final = (46, 77, 68, 494)


@cache
def card(name: str = DEFAULT) -> dict[str, Any]:
    """Return the card of a model.

    >>> card()["license"], card()["architecture"]
    ('CC0-1.0', 'bitnet-b1.58')
    """
    stored: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return stored


@cache
def unseen_text() -> str:
    """Return five stories of the test part of the corpus, on which no model was trained."""
    return (HERE / "unseen.txt").read_text(encoding="utf-8")


# --- model -----------------------------------------------------------------------------------------------------------

#: The activation with which the model was trained; written to the file if its architecture implies another one.
_ACTIVATION: Final = "relu2"

#: Types with blocks of 256; rows of the feed-forward network (384) are not multiples, so these matrices become F16.
_BLOCK_TYPES = ("TQ1_0", "TQ2_0")


def gguf_bytes(name: str = DEFAULT) -> bytes:
    """Return the whole file of a model; in the package it is compressed."""
    import lzma

    return lzma.decompress((HERE / f"{name}.gguf.xz").read_bytes())


def label(name: str = DEFAULT) -> str:
    """Return the name of a model in place of a path."""
    return f"{name}.gguf, which comes with i2s-spec"


def source(name: str = DEFAULT) -> BufferSource:
    """Return the file of a model as a source; nothing is written to disk."""
    from i2s_spec.gguf.source import BufferSource

    return BufferSource(gguf_bytes(name), label(name))


def open_trained(name: str = DEFAULT) -> File:
    """Return a model as an open file."""
    from i2s_spec.gguf.reader import open

    return open(source(name))


def model_of(architecture: str) -> str:
    """Return the trained model that can be written with this architecture.

    :raises ValueError: if there is none
    """
    for name, architectures in MODELS.items():
        if architecture in architectures:
            return name
    known = ", ".join(each for architectures in MODELS.values() for each in architectures)
    raise ValueError(f"there is no trained model of architecture {quote(architecture)}; there are {known}")


def write_trained(
    target: Target,
    architecture: str = "bitnet-b1.58",
    *,
    to: str | None = None,
    dialect: str | Dialect | None = None,
    byte_order: ByteOrder = "little",
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Write a trained model; without options, the file in the package, byte for byte.

    :param architecture: one of those in `MODELS`
    :param to: a type for the ternary tensors (`convert_file` lists them), or a dialect of I2_S; a matrix that does not
    fit TQ1_0 or TQ2_0 becomes F16
    :param dialect: the dialect of I2_S
    :param byte_order: the byte order of the whole file
    :param force: replace an existing file
    :raises ValueError: if there is no such model, before anything is written
    """
    from i2s_spec.convert.convert_file import convert_file

    name = model_of(architecture)
    with open_trained(name) as file:
        renamed = architecture if architecture != file.metadata["general.architecture"] else None
        return convert_file(
            file,
            target,
            to=to,
            dialect=dialect,
            fallback="F16" if to is not None and to.upper() in _BLOCK_TYPES else None,
            arch=renamed,
            hidden_activation=_ACTIVATION if ARCHITECTURES[architecture].takes_activation else None,
            byte_order=byte_order,
            force=force,
            progress=progress,
        )
