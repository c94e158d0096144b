"""This module is a file that goes away while it is read, as under a download that begins anew."""

from __future__ import annotations

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema import faults


class Vanishing(BufferSource):
    """A source that can be read so many times; then each read is the S903 of a file that has changed.

    :param reads: how often it can be read

    ``told`` is whether ``changed()`` has said so.
    """

    def __init__(self, data: bytes, reads: int) -> None:
        super().__init__(data)
        self.reads = reads
        self.reported = False

    @property
    def view(self) -> None:
        """None: everything is to be read."""
        return None

    def read(self, start: int, length: int) -> bytes:
        self._count()
        return super().read(start, length)

    def readinto(self, start: int, buffer: memoryview) -> None:
        self._count()
        super().readinto(start, buffer)

    def changed(self) -> str | None:
        """What the linter asks at its end."""
        self.reported = self.reads < 0
        return "it has gone" if self.reported else None

    def _count(self) -> None:
        self.reads -= 1
        if self.reads < 0:
            raise FormatError(faults.CHANGED, Span(0, self.size), reason=TrustedText("it has gone"))
