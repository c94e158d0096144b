from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from range_server import Server, serving

from i2s_spec.convert.new import new
from i2s_spec.remote.policy import Policy, using


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests use no proxy of the environment."""
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)


@pytest.fixture
def private() -> Iterator[None]:
    """Servers of this machine may be asked."""
    with using(Policy(private=True, timeout=100, seconds=300)):
        yield


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "model.gguf"
    new(path, "bitnet-b1.58", layers=1)
    return path


@pytest.fixture
def hub(server: Server, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """A hub with one repository of two models and a text."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    data = model.read_bytes()
    server.repository("org/repo", {"b/second.gguf": data, "first.gguf": data, "README.md": b"text"})
    return server
