"""Objects in buckets, against a local S3 server (`moto[server]`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.paths import lint_path
from i2s_spec.remote.bucket_source import BucketSource
from i2s_spec.remote.open import open_remote
from i2s_spec.remote.policy import Policy, using

why = "the extra [test-buckets] is not installed"
pytest.importorskip("fsspec", reason=why)
pytest.importorskip("s3fs", reason=why)
pytest.importorskip("moto.server", reason=why)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from botocore and related packages
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def store(model: Path) -> Iterator[Any]:
    """A bucket with a model, and the settings by which clients find it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import fsspec

        files = fsspec.filesystem("s3")
        files.mkdir("models")
        files.pipe("models/a/m.gguf", model.read_bytes())
        files.pipe("models/other.bin", bytes(3 << 20))
        yield files
        fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


def test_an_object_is_read_as_the_file(store: Any, model: Path) -> None:
    with open_file("s3://models/a/m.gguf") as remote, open_file(model) as local:
        name = "blk.0.attn_q.weight"
        assert remote.metadata["general.architecture"] == local.metadata["general.architecture"]
        assert remote.tensors[name].payload == local.tensors[name].payload
    report = lint_path("s3://models/a/m.gguf")
    assert report["ok"]
    assert report["uri"] == "s3://models/a/m.gguf"
    assert report["remote"]["version"].startswith("ETag ")


def test_missing_objects_are_reported(store: Any) -> None:
    for name in ("s3://models/none.gguf", "s3://none/m.gguf", "s3://models/a"):
        with pytest.raises(FormatError, match="S912"):
            open_remote(name)


def test_an_object_that_changes_midway(store: Any) -> None:
    source = open_remote("s3://models/other.bin")
    assert isinstance(source, BucketSource)
    assert source.read(0, 10) == bytes(10)
    store.pipe("models/other.bin", b"\1" * (3 << 20))
    with pytest.raises(FormatError, match="S903"):
        source.read(5 << 19, 10)
    assert "was" in (source.changed() or "")
    source.close()


def test_budgets_hold_for_buckets(store: Any) -> None:
    for policy in (Policy(requests=1), Policy(bytes=1000)):
        with using(policy), pytest.raises(FormatError, match="S917"):
            open_remote("s3://models/other.bin").read(0, 10)  # type: ignore[union-attr]


def test_companions_are_looked_for_in_the_bucket(store: Any) -> None:
    source = open_remote("s3://models/a/m.gguf")
    assert isinstance(source, BucketSource)
    assert source.neighbours_missing(["m.gguf", "n.gguf"]) == 1
    source.close()
