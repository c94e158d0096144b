"""This module opens the files of a checkpoint's folder for the linter, here or on a hub: `FolderFiles`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from i2s_spec.checkpoints.source.bounded_json import read_object
from i2s_spec.convert.hugging_face.safetensors import Checkpoint
from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.source import FetchingSource, Source, is_address, require_unchanged, source_of
from i2s_spec.linter.report_data import Remote
from i2s_spec.schema import faults

#: Most shards that are read from a hub: each needs megabytes and a connection. Models of a trillion weights have 200.
MOST_SHARDS: Final = 512


class FolderFiles:
    """The files of a folder of this machine, or of a hub's repository: read by ranges, all of one commit.

    :param path: a folder, or an address for `pinned_folder`
    :param stack: the exit stack that keeps the shards open
    :raises FormatError: S911 to S918 for addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises OSError: where the folder cannot be listed
    """

    def __init__(self, path: str, stack: ExitStack) -> None:
        self._stack = stack
        self._begin = time.monotonic()
        self._open: list[Source] = []
        self._sound: list[tuple[str, Source]] = []
        self._requests = self._bytes = self._shards = 0
        self.is_remote = is_address(path)
        if self.is_remote:
            from i2s_spec.remote.open_remote import pinned_folder

            found = pinned_folder(path)
            self._place, self.names, self._commit = found.address, frozenset(found.names), found.commit
        else:
            self._place, self.names = path, frozenset(os.listdir(path))

    def json(self, name: str, most: int) -> dict[str, Any]:
        """A JSON file.

        :raises FormatError: H104, and S911 to S918 of a hub
        :raises OSError: where it cannot be read
        """
        return read_object(self._file(name), most, self._close)

    def shard(self, name: str) -> Checkpoint:
        """The tensors of a shard; only its header is read.

        :raises FormatError: H101, H102, H104, and S911 to S918 of a hub
        :raises OSError: where it cannot be read
        """
        if self.is_remote and self._shards == MOST_SHARDS:
            reason = TrustedText(f"more than {MOST_SHARDS:,} shards would be read, which is the limit on servers")
            raise FormatError(faults.REMOTE_OVER_BUDGET, Span(0, 0), reason=reason)
        self._check_budget()
        self._shards += 1
        source = source_of(self._file(name))
        self._stack.callback(source.close)
        self._open.append(source)  # requests for a broken shard count, too
        opened = Checkpoint([source])
        self._sound.append((name, source))
        if isinstance(source, FetchingSource):  # all scales are requested together
            scales = (each for each in opened.values() if each.name.endswith("_scale") and each.nbytes <= 4)
            source.expect((each.start, each.stop) for each in scales)
        return opened

    def changed(self) -> Iterator[tuple[str, FormatError]]:
        """Shards that changed since they were opened, each with its error (12.4-2)."""
        for name, source in self._sound:
            try:
                require_unchanged(source)
            except FormatError as error:
                yield name, error

    @property
    def remote(self) -> Remote | None:
        """The requests and bytes since the folder was listed; None for a folder of this machine."""
        return Remote(self._commit, *self._spent()) if self.is_remote else None

    def _file(self, name: str) -> str:
        return f"{self._place}/{name}" if self.is_remote else os.path.join(self._place, name)

    def _close(self, source: Source) -> None:
        usage = getattr(source, "usage", (0, 0))  # a file of the hub's cache costs nothing
        self._requests += usage[0]
        self._bytes += usage[1]

    def _spent(self) -> tuple[int, int]:
        usages = [getattr(source, "usage", (0, 0)) for source in self._open]
        return self._requests + sum(each[0] for each in usages), self._bytes + sum(each[1] for each in usages)

    def _check_budget(self) -> None:
        """Check that all files together stay within the budget of one file, before the next header is read.

        :raises FormatError: S917
        """
        if not self.is_remote:
            return
        from i2s_spec.remote.connections import over_budget
        from i2s_spec.remote.policy import current

        policy, (requests, size) = current(), self._spent()
        spent = {"bytes": size, "requests": requests, "seconds": time.monotonic() - self._begin}
        for name, value in spent.items():
            if value > (most := getattr(policy, name)):
                raise over_budget(name, most)
