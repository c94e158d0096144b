"""Objects in the buckets of Amazon, Google and Azure: answers that are refused, and servers that speak each protocol.

One stand-in serves the object at the three places where the services have it, so its faults are those of
`range_server`. Google's protocol is spoken by `gcp-storage-emulator`, Azure's by Azurite (npm install --prefix
~/.cache/i2s-spec/azurite azurite@3); S3's by moto, in `test_buckets`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from range_server import Handler, Seen, Server, endless, every

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.paths import lint_path
from i2s_spec.remote.bucket_source import BucketSource
from i2s_spec.remote.open import identity_of, open_remote
from i2s_spec.remote.policy import Policy, using

pytest.importorskip("fsspec", reason="the extra [buckets] is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from the clients and related packages
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

#: Base64, like the well-known key of every emulator; not a secret.
KEY = "a2V5"


class Service(NamedTuple):
    """A scheme, the package that knows it, and where it requests the object of the stand-in."""

    scheme: str
    package: str
    path: str


SERVICES = (
    Service("s3", "s3fs", "/models/a/m.gguf"),
    Service("gs", "gcsfs", "/download/storage/v1/b/models/o/a/m.gguf"),
    Service("az", "adlfs", "/account/models/a/m.gguf"),
)


def environment(patch: pytest.MonkeyPatch, server: str, account: str = "account", key: str = KEY) -> None:
    """The settings by which each client finds its server."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    patch.setenv("AWS_ENDPOINT_URL", server)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # it would query the bucket's kind through gRPC
    patch.setenv("STORAGE_EMULATOR_HOST", server)
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};BlobEndpoint={server}/{account};"
    )
    patch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
    from fsspec.config import conf

    patch.setitem(conf, "gs", {"token": "anon"})


def forget(scheme: str) -> None:
    """Drop file systems that were made with other settings."""
    from fsspec import get_filesystem_class

    get_filesystem_class(scheme).clear_instance_cache()


@pytest.fixture(params=SERVICES, ids=lambda service: service.scheme)
def store(
    request: pytest.FixtureRequest, server: Server, model: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Server]]:
    """The address of an object, and the server of it."""
    service = request.param
    pytest.importorskip(service.package, reason=f"{service.package} is not installed")
    environment(monkeypatch, server.url)
    server.files[service.path] = model.read_bytes() + bytes(3 << 20)
    forget(service.scheme)
    yield f"{service.scheme}://models/a/m.gguf", server
    forget(service.scheme)


def fault(url: str) -> str:
    """The code of reading the object: its head, and a part behind it."""
    source = None
    try:
        source = open_remote(url)
        assert isinstance(source, BucketSource)
        assert source.read(source.size - 10, 10) == bytes(10)
    except FormatError as error:
        code, text = error.code, str(error)
    else:
        code = text = ""
    finally:
        if isinstance(source, BucketSource):
            source.close()
    assert "Signature" not in text
    assert "sig=" not in text
    return code


def test_an_object_is_read_as_the_file(store: tuple[str, Server], model: Path) -> None:
    url, server = store
    with open_file(url) as remote, open_file(model) as local:
        name = "blk.0.attn_q.weight"
        assert remote.metadata["general.architecture"] == local.metadata["general.architecture"]
        assert remote.tensors[name].payload == local.tensors[name].payload
    report = lint_path(url)
    assert report["uri"] == url
    assert report["remote"]["version"] == f'ETag "{server.etag.strip(chr(34))}"'
    found = identity_of(url)
    assert found is not None
    assert (found.etag, found.size) == (report["remote"]["etag"], report["size"])


def test_companions_are_looked_for(store: tuple[str, Server]) -> None:
    source = open_remote(store[0])
    assert isinstance(source, BucketSource)
    assert source.neighbours_missing(["m.gguf", "n.gguf"]) == 1
    source.close()


def test_missing_objects_are_reported(store: tuple[str, Server]) -> None:
    with pytest.raises(FormatError, match="S912"):
        open_remote(store[0].replace("m.gguf", "none.gguf"))


def test_an_object_that_changed_is_noticed(store: tuple[str, Server]) -> None:
    url, server = store
    source = open_remote(url)
    assert source.read(0, 4) == b"GGUF"  # type: ignore[union-attr]
    assert source.changed() is None  # type: ignore[union-attr]
    server.etag = '"two"'
    assert "was" in (source.changed() or "")  # type: ignore[union-attr]
    source.close()  # type: ignore[union-attr]


def answer(status: int = 206, shift: int = 0, **headers: str) -> Callable[[Handler, Seen], None]:
    """The right bytes, with other claims about them."""

    def wrong(handler: Handler, seen: Seen) -> None:
        (start, stop), *_ = seen.ranges
        file = next(iter(handler.server.files.values()))
        stop = min(stop, len(file))
        place = f"bytes {start + shift}-{stop - 1 + shift}/{len(file)}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.answer(status, {"ETag": handler.server.etag, "Content-Range": place, **named}, file[start:stop])

    return wrong


def silent(handler: Handler, seen: Seen) -> None:
    """Nothing, for longer than a client waits; then the connection ends."""
    time.sleep(1.5)
    handler.close_connection = True


#: Answers, and the code of each.
WRONG = {
    "another range": (answer(shift=7), "S918"),
    "another version": (answer(ETag='"two"'), "S903"),
    "the whole object": (answer(200), "S918"),
    "an encoding": (answer(Content_Encoding="gzip"), "S918"),
    "more than was asked for": (endless, "S917"),
    "silence": (silent, "S915"),
}


@pytest.mark.parametrize("first", [1, 2], ids=["at once", "later"])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.requirement("R12.4-4")
def test_wrong_answers_are_refused(store: tuple[str, Server], name: str, first: int) -> None:
    url, server = store
    answers, code = WRONG[name]
    if name == "another version" and first == 1:
        pytest.skip("the first answer says which version it is")
    server.faults.append(every(first, answers))
    began = time.monotonic()
    with using(Policy(timeout=1 if answers is silent else 30, seconds=60)):
        assert fault(url) == code
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("limit", ["requests", "bytes"])
def test_budgets_hold(store: tuple[str, Server], limit: str) -> None:
    with using(Policy(**{limit: 1})):
        assert fault(store[0]) == "S917"


def test_time_is_bounded_inside_a_request(store: tuple[str, Server]) -> None:
    url, server = store

    def drips(handler: Handler, seen: Seen) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 0-{(2 << 20) - 1}/{len(next(iter(server.files.values())))}")
        handler.send_header("Content-Length", str(2 << 20))
        handler.end_headers()
        with suppress(OSError):
            for _ in range(200):
                handler.wfile.write(b"G")
                time.sleep(0.05)

    server.faults.append(every(1, drips))
    began = time.monotonic()
    with using(Policy(timeout=60, seconds=5)):
        assert fault(url) == "S917"
    assert time.monotonic() - began < 30


# --- servers of others ------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def google(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    why = "gcp-storage-emulator is not installed"
    pytest.importorskip("gcsfs", reason="gcsfs is not installed")
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason=why)
    port = free_port()
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket="models")
    server.start()
    try:
        url = f"http://127.0.0.1:{port}"
        upload = urllib.request.Request(
            f"{url}/upload/storage/v1/b/models/o?uploadType=media&name=a%2Fm.gguf", model.read_bytes(),
            {"Content-Type": "application/octet-stream"}, method="POST",
        )  # fmt: skip
        with urllib.request.urlopen(upload, timeout=30) as done:
            assert done.status == 200
        environment(monkeypatch, url)
        forget("gs")
        yield "gs://models/a/m.gguf"
        forget("gs")
    finally:
        server.stop()


@pytest.fixture
def azure(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "i2s-spec" / "azurite"
    program = cache / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists() or shutil.which("node") is None:
        pytest.skip(f"no Azurite: npm install --prefix {cache} azurite@3")
    port = free_port()
    command = ["node", str(program), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry",
               "--blobHost", "127.0.0.1", "--blobPort", str(port)]  # fmt: skip
    accounts = {**os.environ, "AZURITE_ACCOUNTS": f"account:{KEY}"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=accounts)
    try:
        environment(monkeypatch, f"http://127.0.0.1:{port}")
        for _ in range(300):
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.1)
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"]) as service:
            service.create_container("models").upload_blob("a/m.gguf", model.read_bytes())
        forget("az")
        yield "az://models/a/m.gguf"
        forget("az")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["google", "azure"])
def test_servers_of_others_give_the_object(kind: str, request: pytest.FixtureRequest, model: Path) -> None:
    url = request.getfixturevalue(kind)
    report = lint_path(url)
    assert report["ok"]
    assert report["size"] == model.stat().st_size
    with pytest.raises(FormatError, match="S912"):
        open_remote(url.replace("m.gguf", "none.gguf"))
