"""Objects in Google's and Azure's buckets, through gcsfs and adlfs, against local stand-ins that answer their requests.

A stand-in serves one object: its description, ranges of it, and 404 for anything else.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.paths import lint_path
from i2s_spec.remote.bucket_source import BucketSource
from i2s_spec.remote.open import open_remote

pytest.importorskip("fsspec", reason="the extra [buckets] is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from the clients and related packages
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

#: Base64, like the well-known key of Azurite and every emulator; not a secret.
KEY = "a2V5"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        data, etag = self.server.data, self.server.etag
        if path == "/storage/v1/b/models/o/a/m.gguf":
            about = {"name": "a/m.gguf", "bucket": "models", "size": str(len(data)), "etag": etag, "generation": "1"}
            self.answer(
                200, json.dumps({"kind": "storage#object", **about}).encode(), {"Content-Type": "application/json"}
            )
        elif path in ("/download/storage/v1/b/models/o/a/m.gguf", "/account/models/a/m.gguf"):
            asked = self.headers.get("x-ms-range") or self.headers.get("Range")
            properties = {
                "ETag": f'"{etag}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "x-ms-blob-type": "BlockBlob",
                "Content-Type": "application/octet-stream", "x-ms-creation-time": "Mon, 01 Jan 2024 00:00:00 GMT",
                "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked", "x-ms-server-encrypted": "false",
            }  # fmt: skip
            if asked is None:
                self.answer(200, data, properties)
                return
            first, _, last = asked.removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1]
            place = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            self.answer(206, part, {**properties, "Content-Range": place})
        elif path == "/storage/v1/b/models/o":
            self.answer(200, b'{"kind": "storage#objects"}', {"Content-Type": "application/json"})
        elif path.startswith("/account/") and "comp=list" in self.path:
            empty = b'<?xml version="1.0"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>'
            self.answer(200, empty, {"Content-Type": "application/xml"})
        else:
            self.answer(404, b"{}", {"Content-Type": "application/json", "x-ms-error-code": "BlobNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class Store(ThreadingHTTPServer):
    """One object, at the places where both services would have it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, data: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.etag = data, "one"
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *args: Any) -> None:
        """A client that goes away is no error here."""


class Service(NamedTuple):
    """A scheme, and the package that knows it."""

    scheme: str
    package: str


@pytest.fixture(params=[Service("gs", "gcsfs"), Service("az", "adlfs")], ids=lambda service: service.scheme)
def store(request: pytest.FixtureRequest, model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Store]]:
    scheme, package = request.param
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # it would query the bucket's kind through gRPC
    module = pytest.importorskip(package, reason=f"{package} is not installed")
    from fsspec.config import conf

    server = Store(model.read_bytes())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    account = f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={KEY};BlobEndpoint={server.url}/account;"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account)
    monkeypatch.setitem(conf, "gs", {"token": "anon"})
    kind = module.GCSFileSystem if scheme == "gs" else module.AzureBlobFileSystem
    kind.clear_instance_cache()
    yield scheme, server
    kind.clear_instance_cache()
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_object_is_read_as_the_file(store: tuple[str, Store], model: Path) -> None:
    scheme, server = store
    url = f"{scheme}://models/a/m.gguf"
    with open_file(url) as remote, open_file(model) as local:
        name = "blk.0.attn_q.weight"
        assert remote.metadata["general.architecture"] == local.metadata["general.architecture"]
        assert remote.tensors[name].payload == local.tensors[name].payload
    assert any("a/m.gguf" in each for each in server.asked)
    report = lint_path(url)
    assert report["ok"]
    assert report["uri"] == url
    assert "one" in report["remote"]["version"]


def test_missing_objects_are_reported(store: tuple[str, Store]) -> None:
    with pytest.raises(FormatError, match="S912"):
        open_remote(f"{store[0]}://models/none.gguf")


def test_an_object_that_changed_is_noticed(store: tuple[str, Store]) -> None:
    scheme, server = store
    source = open_remote(f"{scheme}://models/a/m.gguf")
    assert isinstance(source, BucketSource)
    assert source.read(0, 4) == b"GGUF"
    assert source.changed() is None
    server.etag = "two"
    assert "was" in (source.changed() or "")
    source.close()
