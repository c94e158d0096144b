"""Content identifiers of servers: one byte is enough to get them, a lint finds the same, and results are stored by them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from range_server import Handler, Seen, Server, every, status

from i2s_spec.errors import FormatError
from i2s_spec.linter.cluster.check import check, check_batch, identities, options_key
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import ResultsLog
from i2s_spec.linter.cluster.run import Coordinator
from i2s_spec.linter.options import Options
from i2s_spec.remote.http_source import LONGEST_ETAG
from i2s_spec.remote.open import identity_of, open_remote
from i2s_spec.remote.policy import Policy

OPTIONS = Options(payload="none", remote=Policy(private=True, timeout=100, seconds=300))
KEY = options_key(OPTIONS)


def named(**headers: str) -> Callable[[Handler, Seen], None]:
    """A good answer, with other headers."""

    def answer(handler: Handler, seen: Seen) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.ranges(handler.server.files["/m.gguf"], seen, headers=names)

    return answer


@pytest.fixture
def url(hub: Server, model: Path) -> str:
    hub.files["/m.gguf"] = model.read_bytes()
    return hub.url + "/m.gguf"


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("place", ["web", "hf://org/repo/first.gguf"])
def test_one_byte_is_enough_for_the_identity_of_the_source(hub: Server, url: str, model: Path, place: str) -> None:
    hub.extra["/org/repo/resolve/main/first.gguf"]["X-Linked-Etag"] = '"content"'
    address = url if place == "web" else place
    found = identity_of(address)
    assert found == ('"one"' if place == "web" else '"content"', model.stat().st_size)
    assert {seen.headers["Range"] for seen in hub.seen} == {"bytes=0-0"}
    source = open_remote(address)
    assert not isinstance(source, str)
    assert (source.etag, source.size) == found
    source.close()


@pytest.mark.usefixtures("private")
def test_a_new_commit_is_not_new_content(hub: Server) -> None:
    before = identity_of("hf://org/repo/first.gguf")
    hub.extra["/org/repo/resolve/main/first.gguf"]["X-Repo-Commit"] = "d" * 40
    assert identity_of("hf://org/repo/first.gguf") == before is not None


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize(
    ("answer", "etag"),
    [
        (named(ETag="", Last_Modified="Mon, 23 Nov 2026 04:00:00 GMT"), "Mon, 23 Nov 2026 04:00:00 GMT"),
        (named(ETag=""), None),
        (named(ETag="e" * (LONGEST_ETAG + 1)), None),
        (named(Content_Range="bytes nonsense"), None),
        (status(200, ETag='"x"'), None),
        (status(416, ETag='"x"'), None),
    ],
    ids=["time", "nothing", "long", "no size", "200", "416"],
)
def test_servers_with_incomplete_headers(hub: Server, url: str, answer: Any, etag: str | None) -> None:
    hub.faults.insert(0, every(1, answer))
    found = identity_of(url)
    assert (found and found.etag) == etag


@pytest.mark.usefixtures("private")
def test_a_repository_has_no_identity_and_neither_has_what_is_offline(
    hub: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert identity_of("hf://org/repo") is None
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert identity_of("hf://org/repo/first.gguf") is None
    assert hub.seen == []


def test_private_networks_are_refused_here_too(url: str) -> None:
    with pytest.raises(FormatError, match="S916"):
        identity_of(url)


def run(entries: list[Entry], place: Path) -> tuple[Coordinator, list[str]]:
    """A run in this process, and the addresses that were judged."""
    options, judged = pickle.dumps(OPTIONS), []
    with ResultsLog(place) as log:
        coordinator = Coordinator(entries, OPTIONS, KEY, log)
        while not coordinator.finished:
            batch = coordinator.next(0.0)
            assert batch is not None
            if batch.kind == "look":
                coordinator.done(batch, identities(batch.entries, options, KEY))
            else:
                judged += [entry.url for entry in batch.entries]
                coordinator.done(batch, check_batch(batch.entries, options, KEY))
        found = {record["url"]: record for record in coordinator.records()}
    assert found.keys() == {entry.url for entry in entries}
    return coordinator, judged


def test_results_are_kept_by_what_servers_call_the_content(hub: Server, url: str, tmp_path: Path) -> None:
    text = hub.url + "/text.gguf"
    hub.files["/text.gguf"] = b"no model at all, and so no facts"
    entries = [Entry(each) for each in (url, "hf://org/repo/first.gguf", text, hub.url + "/missing.gguf")]
    every_url, place = [entry.url for entry in entries], tmp_path / "r.jsonl"
    assert run(entries, place)[1] == every_url
    hub.seen.clear()
    coordinator, judged = run(entries, place)
    assert judged == [hub.url + "/missing.gguf"]  # it may exist now
    assert (coordinator.reused, coordinator.looked_at) == (3, 3)
    assert [seen.ranges for seen in hub.seen if "missing" not in seen.path] == [[(0, 1)]] * 4  # one is a redirect
    hub.etag = '"two"'
    for path in ("/org/repo/resolve/main/first.gguf",):
        hub.extra[path]["X-Linked-Etag"] = hub.etag
    assert run(entries, place)[1] == [every_url[3], *every_url[:3]]
    hub.files["/text.gguf"] += b"."  # a server that does not update the ETag
    assert run(entries, place)[1] == [every_url[3], text]
    hub.faults.insert(0, every(1, status(404)))
    assert sorted(run(entries, place)[1]) == sorted(every_url)
    hub.faults.pop(0)
    assert sorted(run(entries, place)[1]) == sorted(every_url)  # a missing file is no reusable result


def test_a_record_has_the_identity_that_its_server_gave(hub: Server, url: str, model: Path) -> None:
    record = check(url, OPTIONS)
    assert (record["etag"], record["size"]) == ('"one"', model.stat().st_size)
    record = check({"url": url, "etag": "mine"}, OPTIONS)
    assert (record["etag"], record["size"]) == ("mine", None)
    record = check({"url": url, "sha256": "a" * 64}, OPTIONS)
    assert (record["etag"], record["sha256"]) == (None, "a" * 64)
