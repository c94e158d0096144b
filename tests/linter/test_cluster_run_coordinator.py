"""The coordinator of a run over many files, with a simulated engine in which batches return, die, or disappear."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.linter.cluster.check import ENDS, Record, check_batch, digests, options_key, record_of
from i2s_spec.linter.cluster.manifest import Entry, manifest
from i2s_spec.linter.cluster.results import ResultsLog, latest
from i2s_spec.linter.cluster.run import Batch, Coordinator, Rate
from i2s_spec.linter.options import Options, defaults
from i2s_spec.linter.selection import Suppression
from i2s_spec.testing.sample import Draft

KEY = options_key(defaults())


def plain(entry: Entry) -> Record:
    """A record without a lint."""
    summary = {"readable": True, "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    report = {"path": entry.url, "uri": "", "ok": True, "findings": [], "bugs": [], "excused": [], "summary": summary}
    return record_of(entry, KEY, report)


def answer(batch: Batch) -> Any:
    if batch.kind in ("ends", "whole"):
        return digests(batch.entries, batch.kind == "whole")
    return [plain(entry) for entry in batch.entries]


class Engine:
    """Batches one after another, on a clock that goes forward when nothing else can be done."""

    def __init__(self, run: Coordinator, work: Callable[[Batch], Any] = answer, seed: int = 0) -> None:
        self.run, self.work, self.random = run, work, random.Random(seed)
        self.now, self.judged = 0.0, Counter[str]()
        self.most_bytes = self.most_tasks = 0
        self.batches: list[tuple[float, Batch]] = []

    def records(self) -> Iterator[Record]:
        out: list[Batch] = []
        while True:
            yield from self.run.records()
            if self.run.finished:
                return
            while (batch := self.run.next(self.now)) is not None:
                out.append(batch)
                self.batches.append((self.now, batch))
                self.most_bytes = max(self.most_bytes, self.run.bytes_out)
                self.most_tasks = max(self.most_tasks, len(out))
            if not out:
                wait = self.run.wait(self.now)
                assert wait, "nothing is out, and nothing waits: the run would hang"
                self.now += wait + 1e-6
                continue
            batch = out.pop(self.random.randrange(len(out)))
            found = self.work(batch)
            if isinstance(found, str):
                self.run.died(batch, found)
                continue
            if batch.kind in ("check", "alone"):
                self.judged.update(entry.url for entry in batch.entries)
            self.run.done(batch, found, self.now)


def addresses(count: int, host: str = "https://hub.example", size: int = 10) -> list[Entry]:
    return [Entry(f"{host}/{i}.gguf", f"etag {i}", size) for i in range(count)]


def test_every_entry_gets_one_record(tmp_path: Path) -> None:
    entries = addresses(500)
    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(entries, defaults(), KEY, log))
        found = [record["url"] for record in engine.records()]
    assert sorted(found) == sorted(entry.url for entry in entries)
    assert set(engine.judged.values()) == {1}
    assert max(len(batch.entries) for _, batch in engine.batches) > 10
    assert [record["url"] for record in latest(tmp_path / "r.jsonl")] == found


@pytest.mark.parametrize("reads_at", [True, False], ids=["", "without-pread"])
def test_a_run_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_at: bool) -> None:
    if not reads_at:  # as on Windows
        monkeypatch.delattr(os, "pread")
    entries = addresses(300)
    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(entries, defaults(), KEY, log))
        records = engine.records()
        first = [next(records)["url"] for _ in range(100)]
    with (tmp_path / "r.jsonl").open("ab") as stream:
        stream.write(b'{"schema_version": 1, "url": "torn')
    entries[7] = entries[7]._replace(etag="changed")
    with ResultsLog(tmp_path / "r.jsonl") as log:
        known = len(log)
        run = Coordinator(entries, defaults(), KEY, log)
        again = Engine(run)
        found = [record["url"] for record in again.records()]
    was_judged = entries[7].url in first or engine.judged[entries[7].url]
    assert run.reused == known - bool(was_judged)
    assert sorted(found) == sorted(entry.url for entry in entries)
    assert again.judged[entries[7].url] == 1
    assert sum(again.judged.values()) == 300 - run.reused
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert max(Counter((line["url"], line["etag"]) for line in lines).values()) == 1


def test_results_of_other_rules_are_not_used(tmp_path: Path) -> None:
    entries = addresses(5)
    for options in (defaults(), Options(profile="security")):
        with ResultsLog(tmp_path / "r.jsonl") as log:
            run = Coordinator(entries, options, options_key(options), log)
            assert run.reused == 0
            list(Engine(run).records())


def test_a_path_that_could_not_be_read_is_looked_at_again(tmp_path: Path) -> None:
    for _ in range(2):
        with ResultsLog(tmp_path / "r.jsonl") as log:
            run = Coordinator([Entry("/missing.gguf"), Entry("hf://o/r/m.gguf", "e")], defaults(), KEY, log)
            assert len(list(Engine(run).records())) == 2
    assert run.reused == 1


def test_the_server_is_asked_about_an_address_without_an_etag(tmp_path: Path) -> None:
    """Each file is checked once, and again if its server reports other content, another size, or nothing."""
    entries = [Entry(f"https://hub.example/{i}", requests=50) for i in range(40)]
    now: dict[str, tuple[str, int] | None] = {entry.url: (f"e{i}", i) for i, entry in enumerate(entries)}

    def work(batch: Batch) -> Any:
        if batch.kind == "look":
            return "killed" if dead & {entry.url for entry in batch.entries} else [now[e.url] for e in batch.entries]
        given = [(entry, now[entry.url] or (None, None)) for entry in batch.entries]
        return [plain(entry._replace(etag=etag, size=size)) for entry, (etag, size) in given]

    def run(entries: list[Entry], **more: Any) -> tuple[Coordinator, Engine]:
        with ResultsLog(tmp_path / "r.jsonl") as log:
            engine = Engine(Coordinator(entries, defaults(), KEY, log, **more), work)
            assert sorted(record["url"] for record in engine.records()) == sorted(entry.url for entry in entries)
        return engine.run, engine

    dead: set[str] = set()
    first, engine = run(entries[:30])
    assert (first.looked_at, sum(engine.judged.values())) == (0, 30)
    now |= {entries[3].url: ("other", 3), entries[4].url: ("e4", 5), entries[5].url: None}
    again, engine = run(entries, rates={"hub.example": Rate(100, 10)}, tasks=1)
    assert (again.looked_at, again.reused) == (30, 27)
    assert engine.judged == Counter(entry.url for entry in (*entries[3:6], *entries[30:]))
    looks = [batch for _, batch in engine.batches if batch.kind == "look"]
    assert max(len(batch.entries) for batch in looks) > 2  # one request checks many entries for changes
    now[entries[3].url] = ("e3", 3)  # its first version again: the last of several records counts
    _, engine = run(entries)
    assert engine.judged == Counter(entry.url for entry in (entries[3], entries[5]))
    dead.add(entries[0].url)
    assert run(entries[:1])[1].judged == {entries[0].url: 1}


def test_refusals_of_a_server_are_not_reused_as_results(tmp_path: Path) -> None:
    entries = [Entry("hf://o/r/a.gguf", "e", 5), Entry("hf://o/r/b.gguf"), Entry("hf://o/r/c.gguf", sha256="a" * 64)]

    def refused(code: str, batch: Batch) -> Any:
        found = [plain(entry._replace(etag=entry.etag or "e")) for entry in batch.entries]
        return [{**each, "report": {**each["report"], "ok": False, "findings": [{"code": code}]}} for each in found]

    for code in ("S913", "S915", "S903", "S913"):
        with ResultsLog(tmp_path / "r.jsonl") as log:
            run = Coordinator(entries, defaults(), KEY, log)
            assert (run.reused, run.looked_at) == (0, 0)
            assert len(list(Engine(run, partial(refused, code)).records())) == 3


def test_a_digest_in_a_manifest_is_the_identity(tmp_path: Path) -> None:
    for digest, judged in (("a" * 64, 1), ("a" * 64, 0), ("b" * 64, 1)):
        with ResultsLog(tmp_path / "r.jsonl") as log:
            engine = Engine(Coordinator([Entry("hf://o/r/a.gguf", sha256=digest)], defaults(), KEY, log))
            assert len(list(engine.records())) == 1
            assert sum(engine.judged.values()) == judged


@given(st.integers(0, 2**32), st.sets(st.integers(0, 79), max_size=6), st.floats(0, 0.4))
@examples(40)
def test_nothing_is_lost_when_workers_die(
    tmp_path_factory: pytest.TempPathFactory, seed: int, bad: set[int], share: float
) -> None:
    """Some files kill the process that reads them, and workers are killed at random."""
    place = tmp_path_factory.mktemp("log") / "r.jsonl"
    entries = addresses(80)
    deadly = {entries[i].url for i in bad}
    chance = random.Random(seed)

    def work(batch: Batch) -> Any:
        if chance.random() < share or (batch.kind == "check" and any(entry.url in deadly for entry in batch.entries)):
            return "killed"
        found = answer(batch)
        return [{**each, "report": {**each["report"], "ok": each["url"] not in deadly}} for each in found]

    with ResultsLog(place) as log:
        engine = Engine(Coordinator(entries, defaults(), KEY, log), work, seed)
        found = {record["url"]: record for record in engine.records()}
    assert len(list(latest(place))) == len(place.read_bytes().splitlines()) == 80
    assert all(not found[url]["report"]["ok"] for url in deadly)
    if share == 0:
        assert {url for url, record in found.items() if not record["report"]["ok"]} == deadly


def test_a_file_at_which_workers_die_again_and_again_has_that_as_its_result(tmp_path: Path) -> None:
    entries = addresses(20)
    with ResultsLog(tmp_path / "r.jsonl") as log:
        run = Coordinator(entries, defaults(), KEY, log, tasks=2)
        engine = Engine(run, lambda b: "gone" if any(e.url == entries[3].url for e in b.entries) else answer(b))
        found = {record["url"]: record["report"] for record in engine.records()}
    assert len(found) == 20
    assert found[entries[3].url]["bugs"] == [{"where": "lint", "message": "worker died: gone"}]
    assert all(report["ok"] for url, report in found.items() if url != entries[3].url)
    dying = [batch for _, batch in engine.batches if any(entry.url == entries[3].url for entry in batch.entries)]
    assert [batch.kind for batch in dying] == ["check", "alone", "alone"]


def test_bytes_in_flight_are_bounded(tmp_path: Path) -> None:
    sizes = [1, 40 << 20, 100 << 20, 3, 90 << 20]
    entries = [Entry(f"s3://b/{i}", "e", sizes[i % 5]) for i in range(100)]
    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(entries, defaults(), KEY, log, in_flight=200 << 20, tasks=50))
        assert len(list(engine.records())) == 100
    assert engine.most_bytes <= 200 << 20
    assert engine.most_tasks > 1
    with ResultsLog(tmp_path / "s.jsonl") as log:  # an entry above the limit is sent alone
        engine = Engine(Coordinator(entries, defaults(), KEY, log, in_flight=1))
        assert len(list(engine.records())) == 100
    assert engine.most_tasks == 1


def test_hosts_keep_their_rates_and_do_not_wait_for_each_other(tmp_path: Path) -> None:
    slow = [entry._replace(requests=4) for entry in addresses(100, "https://slow.example")]
    quick = addresses(100, "https://quick.example")
    with ResultsLog(tmp_path / "r.jsonl") as log:
        run = Coordinator([*slow, *quick], defaults(), KEY, log, rates={"slow.example": Rate(20, 10)})
        engine = Engine(run)
        assert len(list(engine.records())) == 200
    given = [
        (now, sum(e.requests for e in b.entries)) for now, b in engine.batches if b.entries[0].host == "slow.example"
    ]
    for start, _ in given:
        for end in (now for now, _ in given if now >= start):
            sent = sum(requests for now, requests in given if start <= now <= end)
            assert sent <= 20 + 2 * (end - start) + 1e-6
    assert engine.now == pytest.approx((400 - 20) / 2, rel=0.1)
    assert all(now == 0 for now, batch in engine.batches if batch.entries[0].host == "quick.example")


def test_a_host_that_asks_to_wait_is_left_alone_by_all(tmp_path: Path) -> None:
    """All workers wait for a host that asks one of them to wait; other hosts continue; all files get a record."""
    limited, free = addresses(100, "https://slow.example"), addresses(100, "https://quick.example")
    asked: list[float] = []

    def work(batch: Batch) -> list[Record | None]:
        records: list[Record | None] = [plain(entry) for entry in batch.entries]
        if batch.entries[0].host == "slow.example":
            asked.append(engine.now)
            if engine.now < 30:
                first = plain(batch.entries[0])
                first["report"]["findings"] = [{"code": "S913", "got": 30}]
                return [first, *[None] * (len(records) - 1)]
        return records

    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator([*limited, *free], defaults(), KEY, log), work)
        found = list(engine.records())
    assert Counter(record["url"] for record in found) == Counter(entry.url for entry in [*limited, *free])
    assert not any(record["report"]["findings"] for record in found)
    assert not [now for now in asked if 0 < now < 30]
    assert engine.now == pytest.approx(30, abs=1)


@pytest.mark.parametrize(("seconds", "times"), [(1, 7), (100_000, 1)])
def test_a_host_that_always_refuses_ends_with_a_result(tmp_path: Path, seconds: int, times: int) -> None:
    asked: list[float] = []

    def work(batch: Batch) -> list[Record]:
        asked.append(engine.now)
        record = plain(batch.entries[0])
        record["report"]["findings"] = [{"code": "S913", "got": seconds}]
        return [record]

    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(addresses(1), defaults(), KEY, log), work)
        assert [record["report"]["findings"][0]["code"] for record in engine.records()] == ["S913"]
    assert len(asked) == times
    assert [round(b - a) for a, b in itertools.pairwise(asked)] == [1, 2, 4, 8, 16, 32][: times - 1]


# --- equal content ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Short and long files, some equal, some equal at their ends only, some of equal size only."""
    place = tmp_path / "models"
    place.mkdir()
    long = bytearray(3 * ENDS)
    other = bytearray(long)
    other[len(other) // 2] = 1
    begins = bytearray(long)
    begins[0] = 1
    contents = {"s1": b"x" * 9, "s2": b"x" * 9, "s3": b"y" * 9, "s4": b"z" * 8, "l1": long, "l2": long, "l3": other,
                "l4": begins, "m-00001-of-00002": b"x" * 9}  # fmt: skip
    for name, content in contents.items():
        (place / f"{name}.gguf").write_bytes(content)
    return place


def test_each_content_is_judged_once(folder: Path, tmp_path: Path) -> None:
    for seed in range(5):
        results = tmp_path / f"{seed}.jsonl"
        with ResultsLog(results) as log:
            engine = Engine(Coordinator(manifest([str(folder)]), defaults(), KEY, log), seed=seed)
            found = {Path(record["url"]).stem: record for record in engine.records()}
        assert len(found) == 9
        assert sum(engine.judged.values()) == 7
        copies = {
            frozenset((name, Path(record["same_as"]).stem)) for name, record in found.items() if "same_as" in record
        }
        assert copies == {frozenset(("s1", "s2")), frozenset(("l1", "l2"))}
        for name, record in found.items():
            assert record["report"]["path"].endswith(f"{name}.gguf")
            assert record["url"].endswith(f"{name}.gguf")
        whole = {Path(e.url).stem for _, b in engine.batches if b.kind == "whole" for e in b.entries}
        assert {name for name in whole if name[0] == "l"} == {"l1", "l2", "l3"}
        assert "s4" not in whole


def test_a_copy_that_comes_later_has_the_record_of_the_first(folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with ResultsLog(tmp_path / "r.jsonl") as log:
            engine = Engine(Coordinator(manifest([str(folder)]), defaults(), KEY, log))
            found = {Path(record["url"]).stem: record for record in engine.records()}
        (folder / "s9.gguf").write_bytes(b"x" * 9)
        (folder / "l9.gguf").write_bytes((folder / "l1.gguf").read_bytes())
        if name == "second":
            assert not engine.judged
            assert Path(found["s9"]["same_as"]).stem in ("s1", "s2")
            assert Path(found["l9"]["same_as"]).stem in ("l1", "l2")


def test_digests_of_a_manifest_count_for_addresses(tmp_path: Path) -> None:
    entries = [Entry(f"s3://b/{i}", f"e{i}", 5, f"{i % 3:064x}") for i in range(9)]
    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(entries, defaults(), KEY, log))
        assert len(list(engine.records())) == 9
    assert sum(engine.judged.values()) == 3


def test_suppressions_by_name_keep_equal_files_apart(folder: Path, tmp_path: Path) -> None:
    options = Options(suppressions=(Suppression("**/s1.gguf", ("G",), "known"),))
    with ResultsLog(tmp_path / "r.jsonl") as log:
        engine = Engine(Coordinator(manifest([str(folder)]), options, options_key(options), log))
        list(engine.records())
    assert sum(engine.judged.values()) == 8


def test_files_that_vanish_meanwhile_get_a_report(folder: Path, tmp_path: Path) -> None:
    entries = list(manifest([str(folder)]))
    for path in folder.iterdir():
        path.unlink()

    def work(batch: Batch) -> Any:
        if batch.kind == "check":
            return check_batch(batch.entries, pickle.dumps(defaults()), KEY)
        return answer(batch)

    with ResultsLog(tmp_path / "r.jsonl") as log:
        found = list(Engine(Coordinator(entries, defaults(), KEY, log), work).records())
    assert len(found) == 9
    assert not any(record["report"]["summary"]["readable"] for record in found)


def test_a_worker_with_other_rules_refuses() -> None:
    from i2s_spec.linter.cluster.check import WrongVersion, check_alone

    for function in (check_batch, check_alone):
        with pytest.raises(WrongVersion, match="a worker has other rules"):
            function([], pickle.dumps(defaults()), "another key")


def test_a_process_that_dies_costs_its_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that kills: here by the reference's options, whose details the process does not survive."""
    from pool_items import killing_details

    from i2s_spec.linter.cluster.check import check_alone

    monkeypatch.syspath_prepend(Path(__file__).parent)
    for name in ("a", "deadly", "z"):
        (tmp_path / f"{name}.gguf").write_bytes(Draft().data)
    options = Options(details=killing_details, payload="none")
    records = check_alone(list(manifest([str(tmp_path)])), pickle.dumps(options), options_key(options))
    assert [len(record["report"]["bugs"]) for record in records] == [0, 1, 0]
    message = records[1]["report"]["bugs"][0]["message"]
    assert message == "worker died: the process that checked this file was killed by SIGKILL"
