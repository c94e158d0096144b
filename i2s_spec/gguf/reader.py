"""This module defines how a GGUF file is read: `open` indexes its header, everything else is fetched when asked for.

Opening costs one linear pass over the header and keeps only where things are. Keys and tensors are then looked up by
name; values, strings and tensor bytes are read and decoded on access, each bounded by what the file holds.

    >>> from i2s_spec.gguf.writer import Writer
    >>> import io
    >>> out = io.BytesIO()
    >>> with Writer(out) as writer:
    ...     writer.add("general.architecture", "bitnet-b1.58")
    >>> file = open(out.getvalue())
    >>> file.metadata["general.architecture"]
    'bitnet-b1.58'
"""

from __future__ import annotations

from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.key_values import Entry, Metadata
from i2s_spec.gguf.source import Origin, Source, source_of
from i2s_spec.gguf.tensor_infos import Tensor, Tensors
from i2s_spec.schema.checks import ByteOrder

__all__ = ["Entry", "File", "Metadata", "Tensor", "Tensors", "open"]


def open(origin: Origin, *, trusted: bool = False) -> File:
    """Open a GGUF file: index its header and nothing more.

    :param origin: a path, anything with the buffer protocol, a seekable binary stream, or a `Source`
    :param trusted: map the file into memory, so that arrays are views of it; only for files that nobody can shorten
    :raises FormatError: for whatever prevents indexing (clauses 2.2 to 2.7); all other faults are the linter's
    """
    file = File(source_of(origin, trusted))
    if file.fault is not None:
        file.close()
        raise file.fault
    return file


class File:
    """A GGUF file whose header has been indexed.

    `metadata` maps keys to values and `tensors` names to `Tensor`s, both in file order; where a key or a name occurs
    twice the first one counts, as for the loaders of the BitNet lineage. A `File` made directly (not by `open`) may
    carry a `fault`: then it holds what lies before it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.index = _scanner.scan(source)
        self.fault: FormatError | None = self.index.fault
        self.byte_order: ByteOrder = self.index.byte_order or "little"
        self.version: int | None = self.index.version
        #: Bytes that tensors are aligned to; None where the header gives no usable value.
        self.alignment: int | None = self.index.alignment
        #: First byte of the data section; None where the header does not say.
        self.data_start: int | None = self.index.data_start
        #: End of the last tensor info.
        self.infos_end: int | None = self.index.infos_end
        self.metadata = Metadata(self)
        self.tensors = Tensors(self)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""
        return self.source.size

    def close(self) -> None:
        self.source.close()

    def forget(self) -> None:
        """Let go of the keys and tensors, which cannot be asked for any more: they and the file hold each other, and what
        was indexed would stay until the collector comes by."""
        vars(self.metadata).clear()
        vars(self.tensors).clear()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<File {self.name!r}: {len(self.metadata)} keys, {len(self.tensors)} tensors>"
