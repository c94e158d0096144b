"""Rate limits shared by workers: a worker returns a file that it would have to wait for."""

from __future__ import annotations

import pickle

import pytest
from range_server import Handler, Seen, Server

from i2s_spec.linter.cluster.check import check, check_batch, options_key, wait_asked
from i2s_spec.linter.cluster.manifest import entry_of
from i2s_spec.linter.options import Options
from i2s_spec.remote.policy import Policy
from i2s_spec.remote.transport import Transport
from i2s_spec.testing.sample import Draft


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The requested waits in seconds; the test does not actually wait."""
    seconds: list[float] = []
    monkeypatch.setattr(Transport, "_wait", lambda self, wait: seconds.append(wait))
    return seconds


@pytest.fixture
def limited(server: Server) -> Server:
    """A server that refuses one of its two names for half a minute."""

    def limit(handler: Handler, seen: Seen) -> bool:
        if not seen.headers["Host"].startswith("127.0.0.1"):
            return False
        handler.answer(429, {"Retry-After": "30"})
        return True

    server.files["/m.gguf"] = Draft().data
    server.faults.append(limit)
    return server


def test_a_batch_ends_for_a_host_that_asks_to_wait(limited: Server, slept: list[float]) -> None:
    places = [limited.url, limited.other_url, limited.url, limited.other_url]
    entries = [entry_of(f"{place}/m.gguf") for place in places]
    options = Options(remote=Policy(private=True))
    found = check_batch(entries, pickle.dumps(options), options_key(options))
    assert [record and wait_asked(record) for record in found] == [30, None, None, None]
    assert [record is None for record in found] == [False, False, True, False]
    assert [bool(record and record["report"]["ok"]) for record in found] == [False, True, False, True]
    assert (slept, len(limited.seen)) == ([], 3)


def test_an_engine_without_a_coordinator_waits(limited: Server, slept: list[float]) -> None:
    record = check(f"{limited.url}/m.gguf", Options(remote=Policy(private=True)))
    assert wait_asked(record) == 30
    assert slept == [30] * 6


def test_a_worker_waits_out_a_short_delay(server: Server, slept: list[float]) -> None:
    def limit(handler: Handler, seen: Seen) -> bool:
        if handler.number > 1:
            return False
        handler.answer(429, {"Retry-After": "1"})
        return True

    server.files["/m.gguf"] = Draft().data
    server.faults.append(limit)
    options = Options(remote=Policy(private=True))
    (record,) = check_batch([entry_of(f"{server.url}/m.gguf")], pickle.dumps(options), options_key(options))
    assert record is not None
    assert record["report"]["ok"]
    assert slept == [1]
