"""An object of a bucket as a source: fsspec finds credentials and signs the address; the ranges come over our own HTTP.

So the same checks apply as to any web server: 206 with exactly the requested range, one ETag, limits of bytes, requests
and seconds inside a request. Endpoints and credentials come from the user's own settings (AWS_ENDPOINT_URL and the like),
so the policy about private networks does not apply.

    s3    a presigned address (Signature Version 4) in the region of the bucket, which one HEAD request finds
    gs    the address of the JSON API, and the token of the credentials
    az    the address of the blob with a shared access signature for this one object, or the token of the credentials
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, MissingExtra, Span, TrustedText, counted, quote
from i2s_spec.remote.addresses import BucketAddress
from i2s_spec.remote.http_source import HttpSource
from i2s_spec.remote.policy import current
from i2s_spec.remote.transport import Transport, UnreadAnswer, host_of
from i2s_spec.schema import faults

#: Longest life of a signature in seconds: seven days on S3.
LONGEST: Final = 7 * 86400


class Signed(NamedTuple):
    """Where an object is requested: an address, a bearer token or None, and headers of every request."""

    url: str
    token: str | None = None
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed


async def _s3(system: Any, path: str, seconds: int) -> Signed:
    signing = system._url(path, expires=seconds, **system.req_kw)  # noqa: SLF001  # the coroutine of `url`
    return Signed(await signing)


async def _gs(system: Any, path: str, seconds: int) -> Signed:
    headers: dict[str, str] = {}
    await asyncio.to_thread(system.credentials.apply, headers)  # may ask for a token
    named = {name.lower(): value for name, value in headers.items()}
    token = named.pop("authorization", "").partition(" ")[2] or None
    pays = system.requester_pays  # whether the project pays, or which other one
    project = f"&userProject={pays if isinstance(pays, str) else system.project}" if pays else ""
    return Signed(system.url(path) + project, token, named)


async def _az(system: Any, path: str, seconds: int) -> Signed:
    from azure.storage.blob import BlobSasPermissions, generate_blob_sas

    container, blob, version = system.split_path(path)
    client = system.service_client.get_blob_client(container, blob, version_id=version)
    headers, credential = {"x-ms-version": str(client.api_version)}, client.credential
    if hasattr(credential, "get_token"):
        token = await credential.get_token("https://storage.azure.com/.default")
        return Signed(client.url, str(token.token), headers)
    if not hasattr(credential, "account_key"):  # public, or with a signature in the address
        return Signed(client.url, None, headers)
    signature = generate_blob_sas(
        account_name=credential.account_name,
        account_key=credential.account_key,
        container_name=container,
        blob_name=blob,
        version_id=version,
        permission=BlobSasPermissions(read=True),
        expiry=datetime.now(UTC) + timedelta(seconds=seconds),
    )
    return Signed(f"{client.url}{'&' if '?' in client.url else '?'}{signature}", None, headers)


class _Service(NamedTuple):
    """The package for a scheme, the requests that signing makes, and how it signs."""

    package: str
    requests: int
    sign: Callable[[Any, str, int], Coroutine[Any, Any, Signed]]


_S3: Final = _Service("s3fs", 1, _s3)
_GS: Final = _Service("gcsfs", 0, _gs)
_AZ: Final = _Service("adlfs", 0, _az)
_SERVICES: Final = {"s3": _S3, "s3a": _S3, "gs": _GS, "gcs": _GS, "az": _AZ, "abfs": _AZ, "abfss": _AZ}


class _Bucket:
    """The bucket of an address: it signs the object's address and those of objects beside it."""

    def __init__(self, address: BucketAddress, transport: Transport) -> None:
        self._service, self._transport = _SERVICES[address.scheme], transport
        try:
            from fsspec.config import conf
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtra(f"reading {address.scheme}://", "remote") from None
        settings: dict[str, Any] = {}
        if self._service is _S3:
            timeout = transport.policy.timeout
            config = {"connect_timeout": timeout, "read_timeout": timeout, "retries": {"total_max_attempts": 1}}
            # Version 2, the default of presigned addresses in some regions, does not give every encrypted object.
            config |= {**conf.get("s3", {}).get("config_kwargs", {}), "signature_version": "s3v4"}
            settings = {"cache_regions": True, "config_kwargs": config}
        try:
            self._system, self._path = _asked(url_to_fs, address.url, **settings)
        except ImportError:
            raise MissingExtra(
                f"reading {address.scheme}:// (the package {self._service.package})", "buckets"
            ) from None
        transport.count(self._service.requests)

    def signed(self, name: str | None = None) -> Signed:
        """Return where to request the object, or another one beside it.

        :raises FormatError: S911, S915, S917
        """
        from fsspec.asyn import sync

        path = self._path if name is None else f"{self._path.rpartition('/')[0]}/{name}"
        life, left = min(self._transport.policy.seconds + 60, LONGEST), self._transport.left()
        try:
            found: Signed = _asked(sync, self._system.loop, self._service.sign, self._system, path, life, timeout=left)
        except FormatError:
            self._transport.left()
            raise
        return found


def _asked(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function of a service's package; its exceptions become faults."""
    try:
        return call(*args, **keywords)
    except (FormatError, ImportError):
        raise
    except Exception as error:  # each package has its own
        words = quote(str(error) or type(error).__name__, 160, bare=True)
        denied = "credential" in f"{type(error).__name__} {words}".lower()
        fault = faults.REMOTE_DENIED if denied else faults.REMOTE_UNREACHABLE
        raise FormatError(fault, Span(0, 0), reason=TrustedText(words)) from None


def of_bucket(address: BucketAddress) -> tuple[str, Transport, _Bucket]:
    """Return the signed address of an object, the requests for it, and its bucket.

    :raises MissingExtra: if the package for the service is not installed
    :raises FormatError: S911, S915, S917
    """
    transport = Transport(current()._replace(private=True))
    bucket = _Bucket(address, transport)
    found = bucket.signed()
    transport.authorize(found.token, found.url, found.headers)
    return found.url, transport, bucket


class BucketSource(HttpSource):
    """An object of a bucket.

    :raises MissingExtra: if the package for the service is not installed
    :raises FormatError: S903, S911, S912, S915, S917, S918
    """

    def __init__(self, name: str, address: BucketAddress) -> None:
        url, transport, self._bucket = of_bucket(address)
        super().__init__(name, url, transport)
        self.version = f"ETag {quote(self.etag, 200, bare=True)}" if self.etag else None
        self.many_at_once = False  # no service gives several ranges at once

    def _read_range(self, answer: UnreadAnswer, buffer: memoryview) -> int:
        """Read the body, which must end with its range: each service states the length of an object."""
        done = super()._read_range(answer, buffer)
        is_over = done == buffer.nbytes and answer.body.length_remaining != 0
        if is_over and self.transport.read(answer.body, memoryview(bytearray(1))):
            words = f"{host_of(answer.url)} sends more than the {counted(done, 'byte')} of the requested range"
            raise FormatError(faults.REMOTE_OVER_BUDGET, Span(0, 0), reason=TrustedText(words))
        return done

    def changed(self) -> str | None:
        if not self.size:
            return None
        try:
            self.fetch_into(0, memoryview(bytearray(1)))
        except FormatError as error:
            if error.code != faults.CHANGED.code:
                raise
            return str(error.details["reason"])
        return None

    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        missing = 0
        for name in names:
            url = self._bucket.signed(name).url
            with self.transport.get(url, {"Range": "bytes=0-0"}, (404, 416)) as answer:
                missing += answer.status == 404
        return missing
