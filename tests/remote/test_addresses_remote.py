"""The meaning of addresses, and addresses that are not followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import FileSource, is_address, source_of
from i2s_spec.remote.addresses import BucketAddress, HubAddress, WebAddress, parse
from i2s_spec.remote.policy import Policy, require_public, with_numbers

HUB = "https://huggingface.co"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("hf://org/repo", HubAddress("", "org/repo", "main", "")),
        ("hf://org/repo/", HubAddress("", "org/repo", "main", "")),
        ("HF://org/repo@v1/a/b.gguf", HubAddress("", "org/repo", "v1", "a/b.gguf")),
        ("hf://org/repo@refs%2Fpr%2F1/b.gguf", HubAddress("", "org/repo", "refs/pr/1", "b.gguf")),
        ("hf://datasets/org/repo/b.gguf", HubAddress("datasets", "org/repo", "main", "b.gguf")),
        (f"{HUB}/org/repo", HubAddress("", "org/repo", "main", "")),
        (f"{HUB}/org/repo/tree/main", HubAddress("", "org/repo", "main", "")),
        (f"{HUB}/org/repo/blob/main/b.gguf", HubAddress("", "org/repo", "main", "b.gguf")),
        (f"{HUB}/org/repo/resolve/{'c' * 40}/a/b.gguf?download=true", HubAddress("", "org/repo", "c" * 40, "a/b.gguf")),
        (f"{HUB}/spaces/org/repo/blob/main/b.gguf", HubAddress("spaces", "org/repo", "main", "b.gguf")),
        (f"{HUB}/docs/hub/a/page", WebAddress(f"{HUB}/docs/hub/a/page")),
        ("https://example.org:444/a.gguf?x=1#part", WebAddress("https://example.org:444/a.gguf?x=1")),
        ("s3://bucket/a/b.gguf", BucketAddress("s3", "s3://bucket/a/b.gguf")),
        ("az://box/b.gguf", BucketAddress("az", "az://box/b.gguf")),
    ],
)
def test_addresses_are_parsed(text: str, meant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert is_address(text)
    assert parse(text) == meant


def test_a_page_of_another_endpoint_is_one_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example:8080/")
    assert parse("http://mirror.example:8080/org/repo") == HubAddress("", "org/repo", "main", "")


@pytest.mark.parametrize(
    "text",
    [
        "hf://org", "hf://org/..", "hf://../repo", "hf://org/repo@../x", "hf://org/repo/../x.gguf", "hf://org/repo//x.gguf",
        "hf://org/repo/a\\b.gguf", "hf://org/repo/a\x1bb.gguf", "hf://or g/repo", "hf://buckets/org/repo/a.gguf",
        "https://user:password@example.org/a.gguf", "https:///a.gguf", "https://[::1/a.gguf", "https://a:b/c.gguf",
        "s3://bucket", "s3:///key", "https://example.org/" + "a" * 9000,
    ],
)  # fmt: skip
def test_invalid_addresses_are_refused(text: str) -> None:
    assert is_address(text)
    with pytest.raises(FormatError) as error:
        parse(text)
    assert error.value.code == "S916"
    assert "password" not in str(error.value)


def test_a_file_whose_name_looks_like_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "hf:" / "org"
    folder.mkdir(parents=True)
    (folder / "a.gguf").write_bytes(b"GGUF")
    source = source_of("./hf://org/a.gguf")
    assert isinstance(source, FileSource)
    source.close()
    for name in ("ftp://x/y", "a.gguf", "://x", "C://x"):
        assert not is_address(name)


@pytest.mark.parametrize(
    ("numeric", "public"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("169.254.169.254", False), ("192.168.0.1", False), ("100.64.0.1", False), ("0.0.0.0", False), ("::1", False),
        ("fe80::1%eth0", False), ("fd00::1", False), ("::ffff:127.0.0.1", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("224.0.0.1", False), ("255.255.255.255", False),
        ("64:ff9b::808:808", True), ("2002:808:808::", True), ("::ffff:8.8.8.8", True), ("::7f00:1", False),
        ("::ffff:0:127.0.0.1", False), ("64:ff9b:1::7f00:1", False), ("fec0::1", False), ("5f00::1", False),
        ("3fff::1", False), ("4000::1", False), ("192.88.99.1", False), ("192.0.0.8", False), ("ff0e::1", False),
    ],
)  # fmt: skip
def test_networks(numeric: str, public: bool) -> None:
    require_public("host", numeric, Policy(private=True))
    if public:
        require_public("host", numeric, Policy())
    else:
        with pytest.raises(FormatError, match=r"S916.*no public network"):
            require_public("host", numeric, Policy())


def test_numbers_of_a_policy() -> None:
    assert with_numbers(Policy(), {"bytes": 5}) == Policy(bytes=5)
    for wrong in ({"private": 1}, {"bytes": 0}, {"seconds": 1 << 64}):
        with pytest.raises(ValueError, match="remote limit"):
            with_numbers(Policy(), wrong)
