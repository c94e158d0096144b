"""This module asks a server for the identity (ETag) of a file's content, which shows whether it changed; it reads one
byte."""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.remote.addresses import BucketAddress, HubAddress, parse
from i2s_spec.remote.http_source import etag_of
from i2s_spec.remote.multipart import CONTENT_RANGE
from i2s_spec.remote.open_remote import require_extra
from i2s_spec.remote.policy import current


class ContentIdentity(NamedTuple):
    """The server's identity of a file's content, and its size in bytes."""

    etag: str
    size: int


def identity_of(text: str) -> ContentIdentity | None:
    """The identity of the file at an address; None if the server does not give it, and for a repository.

    It equals `etag` and `size` of the source of the same address.

    :raises FormatError: S911 to S918
    :raises MissingExtra: where the extra [remote] is not installed
    """
    require_extra(text)
    address = parse(text)
    if isinstance(address, BucketAddress):
        from i2s_spec.remote.bucket_source import BucketSource

        source = BucketSource(text, address)
        source.close()
        return None if source.etag is None else ContentIdentity(source.etag, source.size)
    from i2s_spec.remote import hub
    from i2s_spec.remote.transport import Transport

    if isinstance(address, HubAddress):
        if not address.path or hub.is_offline():
            return None
        url, transport = hub.url_of(address), hub.transport(hub.ETAG_TIMEOUT)
    else:
        url, transport = address.url, Transport(current())
    try:
        with transport.get(url, {"Range": "bytes=0-0"}, (416,)) as answer:
            etag = etag_of(answer)
            found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
            if etag is None or answer.status != 206 or found is None:
                return None
            return ContentIdentity(etag, int(found["size"]))
    finally:
        transport.close()
