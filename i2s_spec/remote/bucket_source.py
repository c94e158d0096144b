"""This module defines an object of a bucket as a source, through fsspec, which supports each service.

Endpoints and credentials come from the user's own settings (AWS_ENDPOINT_URL and the like), so the policy about private
networks does not apply. The limits of bytes, requests and seconds do apply.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from i2s_spec.errors import FormatError, MissingExtra, Span, TrustedText, counted, quote
from i2s_spec.remote.addresses import BucketAddress
from i2s_spec.remote.http_source import Range, RangeSource, Usage, over_budget
from i2s_spec.remote.policy import current
from i2s_spec.schema import faults

#: The fields of an object's description that identify its version.
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "generation", "LastModified", "last_modified", "mtime")

#: Packages for schemes that fsspec alone does not support.
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "adl": "adlfs",
}  # fmt: skip


class BucketSource(RangeSource):
    """An object of a bucket.

    :raises MissingExtra: if the package for the service is not installed
    :raises FormatError: S903, S911, S912, S915, S917
    """

    def __init__(self, name: str, address: BucketAddress) -> None:
        self._policy = current()
        self._end = time.monotonic() + self._policy.seconds
        self._requests = self._bytes = 0
        self._path = ""
        self._fs = self._system(address)
        about = self._ask(lambda: self._fs.info(self._path))
        size = about.get("size")
        if about.get("type") == "directory" or not isinstance(size, int):
            raise _fault(faults.REMOTE_MISSING, "the bucket has no object of that name, but perhaps others below it")
        self._about = self._version(about)
        super().__init__(name, size, self._about, self._policy.sample)
        self.etag = self._about
        # For S3 this requests each range with If-Match.
        self._file = self._ask(lambda: self._fs.open(self._path, "rb", cache_type="none"), cost=0)

    @property
    def usage(self) -> Usage:
        return Usage(self._requests, self._bytes)

    def fetch(self, ranges: Sequence[Range], optional: Collection[Range] = ()) -> list[bytes]:
        found = []
        for start, stop in ranges:
            data = bytearray(0 if (start, stop) in optional else stop - start)
            if data:
                self.fetch_into(start, memoryview(data))
            found.append(bytes(data))
        return found

    def fetch_into(self, start: int, buffer: memoryview) -> None:
        def read() -> bytes:
            self._file.seek(start)
            data: bytes = self._file.read(buffer.nbytes)
            return data

        if self._bytes + buffer.nbytes > self._policy.bytes:
            raise over_budget("bytes", self._policy.bytes)
        data = self._ask(read)
        self._bytes += len(data)
        if len(data) != buffer.nbytes:
            raise _changed(self.size, f"only {len(data):,} of {counted(buffer.nbytes, 'byte')} were received")
        buffer[:] = data

    def changed(self) -> str | None:
        self._fs.invalidate_cache()
        now = self._version(self._ask(lambda: self._fs.info(self._path)))
        return None if now == self._about else f"its version was {self._about} and is {now}"

    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        folder = self._path.rpartition("/")[0]
        return sum(not self._ask(lambda each=each: self._fs.exists(f"{folder}/{each}")) for each in names)

    def close(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _system(self, address: BucketAddress) -> Any:
        try:
            import fsspec
        except ImportError:
            raise MissingExtra(f"reading {address.scheme}://", "remote") from None
        try:
            system, self._path = fsspec.core.url_to_fs(address.url)
        except ImportError:
            package = _PACKAGES[address.scheme]
            raise MissingExtra(f"reading {address.scheme}:// (the package {package})", "buckets") from None
        return system

    def _version(self, about: dict[str, Any]) -> str:
        found = next((f"{name} {about[name]}" for name in _VERSIONS if about.get(name)), "")
        return quote(f"{found}, {about.get('size')} bytes", 200, bare=True)

    def _ask(self, call: Any, cost: int = 1) -> Any:
        """Make one request; the exceptions of each service are converted to faults."""
        self._requests += cost
        if self._requests > self._policy.requests:
            raise over_budget("requests", self._policy.requests)
        if time.monotonic() > self._end:
            raise over_budget("seconds", self._policy.seconds)
        try:
            return call()
        except FileNotFoundError:
            raise _fault(faults.REMOTE_MISSING, "the bucket has no object of that name") from None
        except PermissionError as error:
            raise _fault(faults.REMOTE_DENIED, quote(str(error), 120, bare=True)) from None
        except Exception as error:  # each service has its own exceptions
            words = quote(str(error) or type(error).__name__, 160, bare=True)
            if (
                "PreconditionFailed" in words or getattr(error, "errno", None) == errno.EBUSY
            ):  # s3fs raises this for a 412
                raise _changed(getattr(self, "size", 0), "the bucket has another version of it now") from None
            if "Credentials" in type(error).__name__ or "credentials" in words:
                raise _fault(faults.REMOTE_DENIED, words) from None
            raise _fault(faults.REMOTE_UNREACHABLE, words) from None


def _fault(fault: Any, words: str) -> FormatError:
    return FormatError(fault, Span(0, 0), reason=TrustedText(words))


def _changed(size: int, words: str) -> FormatError:
    return FormatError(faults.CHANGED, Span(0, size), reason=TrustedText(words))
