"""This module defines a file that changes while it is read, as when a download is restarted."""

from __future__ import annotations

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema import faults


class Vanishing(BufferSource):
    """A source that can be read a limited number of times; then each read raises S903, as for a changed file.

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
        """The check that the linter makes at its end."""
        self.reported = self.reads < 0
        return "it has gone" if self.reported else None

    def _count(self) -> None:
        self.reads -= 1
        if self.reads < 0:
            raise FormatError(faults.CHANGED, Span(0, self.size), reason=TrustedText("it has gone"))
