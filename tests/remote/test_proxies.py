"""Environment variables: proxies, and the hub's own timeouts."""

from __future__ import annotations

import base64

import pytest
from range_server import Handler, Seen, Server, serving

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.remote import hub as hub_module
from i2s_spec.remote.http_source import RangeSource
from i2s_spec.remote.open import identity_of, open_remote
from i2s_spec.remote.policy import Policy, current, using
from i2s_spec.remote.transport import Transport

DATA = bytes(range(256)) * 40


@pytest.fixture
def proxy(server: Server) -> Server:
    """A server that answers for every host: a request by a proxy names all of the address."""
    server.files["/f"] = DATA
    return server


def first_bytes(url: str) -> bytes:
    source = open_remote(url)
    assert isinstance(source, RangeSource)
    try:
        return source.read(0, 9)
    finally:
        source.close()


def test_a_proxy_is_asked_for_a_host_that_only_it_knows(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be in a private network: the caller named it."""
    monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://us%40er:word@"))
    with using(Policy()):
        assert first_bytes("http://models.invalid/f") == DATA[:9]
    assert [seen.path for seen in proxy.seen] == ["http://models.invalid/f"]
    headers = {name.lower(): value for name, value in proxy.seen[0].headers.items()}
    said = headers["proxy-authorization"].removeprefix("Basic ")
    assert base64.b64decode(said) == b"us@er:word"


def test_https_goes_through_a_tunnel(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy sees the name of the host, and no token."""
    asked: list[tuple[str, dict[str, str]]] = []

    def refuse(handler: Handler) -> None:
        asked.append((handler.path, dict(handler.headers.items())))
        handler.answer(403)

    monkeypatch.setattr(Handler, "do_CONNECT", refuse, raising=False)
    monkeypatch.setattr(Transport, "_wait", lambda *args: None)
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with using(Policy(timeout=100, seconds=300)), pytest.raises(FormatError, match="S915"):
        open_remote("hf://org/repo/m.gguf")
    assert {path for path, _ in asked} == {"hub.invalid:443"}
    assert not any("hf_secret" in str(headers) for _, headers in asked)


@pytest.mark.parametrize("excepted", ["127.0.0.1", "*"])
def test_hosts_that_are_excepted_are_asked_themselves(
    proxy: Server, monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    with serving() as other:
        other.files["/f"] = DATA
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", excepted)
        with using(Policy(private=True)):
            assert first_bytes(other.url + "/f") == DATA[:9]
        assert ([seen.path for seen in other.seen], proxy.seen) == (["/f"], [])


@pytest.mark.parametrize("host", [
    "10.0.0.1", "169.254.169.254", "[::1]", "localhost", "x.localhost", "LOCALHOST", "localhost.", "127.1", "2130706433",
    "0x7f000001", "0177.0.0.1", "169.254.169.254.", "[::ffff:10.0.0.1]",
    "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
])  # fmt: skip
def test_numeric_addresses_are_looked_at_all_the_same(
    proxy: Server, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    with using(Policy()), pytest.raises(FormatError, match=r"S916.*no public network"):
        open_remote(f"http://{host}/f")
    assert proxy.seen == []


def test_invalid_proxies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://name:word@127.0.0.1:9")
    with pytest.raises(FormatError, match=r"S916.*is not an http:// or https:// address") as error:
        open_remote("http://models.invalid/f")
    assert "word" not in str(error.value)


@pytest.mark.parametrize(("value", "timeout", "seconds"), [("7", 30, 7), ("7", 9, 9), ("x", 30, 30), ("0", 30, 30)])
def test_the_timeouts_of_the_hub_are_used(
    monkeypatch: pytest.MonkeyPatch, value: str, timeout: int, seconds: int
) -> None:
    for name in (hub_module.ETAG_TIMEOUT, hub_module.DOWNLOAD_TIMEOUT):
        monkeypatch.setenv(name, value)
        with using(Policy(timeout=timeout)):
            made = hub_module.transport(name)
            assert made.policy == current()._replace(timeout=seconds)
        made.close()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    real = hub_module.transport

    def noted(name: str) -> Transport:
        names.append(name)
        return real(name)

    monkeypatch.setattr(hub_module, "transport", noted)
    return names


@pytest.mark.usefixtures("private")
def test_each_request_uses_its_time_limit(hub: Server, used: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")  # no effect here: ranges are read through HTTP
    with open_file("hf://org/repo/first.gguf") as file:
        assert file.metadata["general.architecture"] == "bitnet-b1.58"
    assert identity_of("hf://org/repo/first.gguf") is not None
    hub_module.list_files(hub_module.HubAddress("", "org/repo", "main", ""))
    assert used == [hub_module.DOWNLOAD_TIMEOUT, hub_module.ETAG_TIMEOUT, hub_module.ETAG_TIMEOUT]


def test_redirects_go_through_the_proxy_too(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(handler: Handler, seen: Seen) -> bool:
        if not seen.path.endswith("/start"):
            return False
        handler.answer(302, {"Location": "http://other.invalid/f"})
        return True

    proxy.faults.append(leave)
    monkeypatch.setenv("http_proxy", proxy.url)
    with using(Policy()):
        assert first_bytes("http://models.invalid/start") == DATA[:9]
    assert [seen.path for seen in proxy.seen] == ["http://models.invalid/start", "http://other.invalid/f"]
