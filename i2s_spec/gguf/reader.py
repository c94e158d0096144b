"""Reading of a GGUF file: `open` indexes its header, everything else is fetched when asked for.

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

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from itertools import islice
from typing import Any, TypeVar, cast

from i2s_spec.errors import FormatError, ReadOnWarning, Span, TrustedText, counted, quote
from i2s_spec.gguf.data_section import DataSection
from i2s_spec.gguf.header import HeaderIndex, KeyValue, Metadata
from i2s_spec.gguf.source import FetchingSource, Origin, Source, source_of
from i2s_spec.gguf.tensor import Tensor, Tensors
from i2s_spec.schema import faults
from i2s_spec.schema.faults import ByteOrder

__all__ = ["File", "KeyValue", "Metadata", "Tensor", "Tensors", "open", "takes_file"]

Call = TypeVar("Call", bound=Callable[..., Any])

#: Scales that are asked of a server together.
MOST_EXPECTED = 4096


def open(origin: Origin, *, trusted: bool = False) -> File:
    """Open a GGUF file: index its header and nothing more.

    :param origin: a path, anything with the buffer protocol, a seekable binary stream, a `gguf.GGUFReader`, or a `Source`
    :param trusted: map the file, so that arrays are views of it; only for files that no other process can truncate
    :raises FormatError: for whatever prevents indexing (clauses 2.2 to 2.7); all other faults are the linter's
    :warns ReadOnWarning: for faults that the reading went past
    """
    file = File(source_of(origin, trusted))
    if file.fault is not None:
        file.close()
        raise file.fault.of_file(origin) if isinstance(origin, str | os.PathLike) else file.fault
    file.warn()
    return file


def takes_file(function: Call) -> Call:
    """Let a function whose first parameter is a `File` take whatever `open` takes; what was opened here is closed here."""
    first = function.__code__.co_varnames[0]

    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if not given and first not in options:
            return function(**options)  # which says what is missing
        origin = given[0] if given else options.pop(first)
        if isinstance(origin, File):
            return function(origin, *given[1:], **options)
        file = open(origin)
        try:
            return function(file, *given[1:], **options)
        finally:
            if isinstance(origin, str | os.PathLike):
                file.close()

    return cast(Call, call)


class File:
    """A GGUF file whose header has been indexed.

    `metadata` maps keys to values and `tensors` names to `Tensor`s, both in file order; if a key or a name occurs
    twice, the first one counts, as for the loaders of the BitNet family. A `File` made directly (not by `open`) may
    have a `fault`; it then contains only what precedes the fault. Faults in `passed` did not end the reading. A `with`
    block that ends without an error checks whether the file changed meanwhile, and raises S903 if it did.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.index = HeaderIndex(source)
        self.fault: FormatError | None = self.index.fault
        if self.fault is not None and self.fault.code not in faults.NO_INPUT:
            from i2s_spec.gguf.strings import utf8_damage

            self.fault = utf8_damage(source) or self.fault
        #: Faults that the reading went past, for which strict readers refuse the file: keys that are too long, and an
        #: impossible alignment where the offsets show another one.
        self.passed: tuple[FormatError, ...] = self.index.passed
        self.byte_order: ByteOrder = self.index.byte_order
        self.version: int | None = self.index.version
        #: Bytes that tensors are aligned to; None where the header gives no usable value.
        self.alignment: int | None = self.index.alignment
        #: End of the last tensor info.
        self.infos_end: int | None = self.index.infos_end
        self.metadata = Metadata(self.index)
        self.tensors = Tensors(self.index)
        #: Where the tensors lie, which is not always where the header puts them.
        self.data_section = DataSection(self.tensors)
        self._warns = False
        if self.infos_end is not None:
            self.index.locate = self._locate
        if self.fault is None and isinstance(source, FetchingSource):  # all scales in as few requests as possible
            source.expect(self._tails(), if_together=True)

    def _tails(self) -> Iterator[tuple[int, int]]:
        """Where the scales of the file are."""
        for tensor in islice(self.tensors.values(), MOST_EXPECTED):
            with suppress(FormatError):
                span = tensor.tail_span
                yield span.start, span.stop

    @property
    def data_start(self) -> int | None:
        """First byte of the data section; None if the header does not determine it."""
        return self.index.data_start

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""
        return self.source.size

    def _locate(self) -> None:
        """Find where the data section begins, before it is used; of a file on a server only if its size is odd."""
        self.data_section.locate(look=not self.data_section.on_server)
        if self._warns:
            self._warn(self.data_section.words)

    def warn(self) -> None:
        """Say how the file is read in spite of its faults, now or once they are met.

        :warns ReadOnWarning: one sentence for each kind of them
        """
        self._warns = True
        self._warn(self.data_section.words)
        if not self.passed:
            return
        first, more = self.passed[0], len(self.passed) - 1
        others = f" (and {counted(more, 'more such fault')})" if more else ""
        aligned = any(error.fault in faults.ALIGNMENTS for error in self.passed)
        how = f"the file is read with an alignment of {self.alignment}" if aligned else "the file is read all the same"
        self._warn(f"{first.code} {first.fault.slug}: {first.message}{others}; {how}")

    def _warn(self, words: str) -> None:
        if words:
            from warnings import warn

            warn(f"{quote(self.name, 4096, bare=True)}: {words}", ReadOnWarning, stacklevel=3)

    def require_unchanged(self) -> None:
        """Raise S903 if the file changed since it was opened: the bytes read may belong to different versions (12.4-2).

        :raises FormatError: S903
        """
        reason = self.source.changed()
        if reason is not None:
            raise FormatError(faults.CHANGED, Span(0, self.size), reason=TrustedText(reason))

    def close(self) -> None:
        self.source.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            if exc[0] is None:
                self.require_unchanged()
        finally:
            self.close()

    def __repr__(self) -> str:
        from i2s_spec.errors import line

        stopped = "" if self.fault is None else f", stopped by {self.fault.code}"
        parts = f"{counted(self.index.keys, 'key')}, {counted(self.index.tensors, 'tensor')}{stopped}"
        return line("File", self.name, parts)

    def _repr_html_(self) -> str:
        """Return the file for a notebook: what it is, and the first tensors; nothing of the data section is read."""
        from i2s_spec.errors import ROWS, table

        facts: list[tuple[str, Any]] = [
            ("size", counted(self.size, "byte")),
            ("architecture", self._architecture),
            ("version, byte order", f"{self.version}, {self.byte_order}-endian"),
            ("keys", self.index.keys),
        ]
        if self.fault is not None:
            facts.append(("stopped by", str(self.fault)))
        rows = ((each.raw_name, each.kind, each.shape, each.offset) for each in islice(self.tensors.rows, ROWS))
        head = ("tensor", "type", "shape", "offset")
        return table(f"{self.name}: {counted(self.index.tensors, 'tensor')}", facts, head, rows, self.index.tensors)

    @property
    def _architecture(self) -> Any:
        if "general.architecture" not in self.metadata:
            return "not said"
        try:
            return self.metadata.preview(self.metadata.entry("general.architecture"))
        except ValueError:  # the file was closed, or changed
            return "cannot be read any more"
