"""The table of a run is the same whether it is made during the run or from earlier results."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.errors import Unfinished, quote
from i2s_spec.linter.cluster import lint_manifest as module
from i2s_spec.linter.cluster import results
from i2s_spec.linter.cluster.check import Record, record_of
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import COLUMNS, ResultsLog, ResultsTable, latest
from i2s_spec.linter.options import defaults

arrow = pytest.importorskip("pyarrow", reason="the extra [dask] is not installed")
read_table = pytest.importorskip("pyarrow.parquet").read_table


def write_parquet(records: Iterable[Record], path: Path) -> int:
    """Write the table, whole or not at all; how many rows it has."""
    with ResultsTable(path) as table:
        for record in records:
            table.add(record)
    return table.rows


def record(url: str, etag: str | None = "e", key: str = "r", **changes: Any) -> Record:
    summary: dict[str, Any] = {"readable": True, "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    report = {"path": url, "uri": "", "ok": True, "findings": [], "bugs": [], "excused": [], "summary": summary}
    summary.update(changes.pop("summary", {}))
    facts = changes.pop("facts", None)
    return record_of(Entry(url, etag, 10), key, {**report, **changes}, facts)


def varied(count: int) -> Iterator[Record]:
    """Records in which everything that a column is made of occurs, and is missing."""
    for i in range(count):
        found = record(
            f"/models/{i}\udcff.gguf" if i % 5 == 0 else f"https://hub.example/{i}\n.gguf",
            None if i % 3 == 0 else f"etag {i}",
            ok=i % 2 == 0,
            findings=[{"code": code} for code in ("S101", "G003", "S101")[: i % 4]],
            bugs=["a bug"] * (i % 2),
            summary={"errors": i % 4, "elided": {"I001": 7} if i % 4 == 2 else {}},
            facts={"architecture": "a\x1b[31m", "producer": "b", "layout": None} if i % 2 else None,
        )
        if i % 6 == 0:
            found["report"] |= {"skipped": "a pointer", "size": 99}
            found["size"] = None
        if i % 7 == 0:
            found["same_as"] = "/models/first.gguf"
            found["report"]["runtimes"] = [{"runtime": "a", "loads": "yes"}, {"runtime": "b", "loads": "no"}]
        yield found


def defined(records: Iterable[Record]) -> Any:
    """The table as Arrow makes it from whole rows: the expected result of the fast path."""

    def text(value: Any) -> str | None:
        return quote(value, limit=4096, bare=True) if isinstance(value, str) else None

    kinds = {"text": arrow.string(), "texts": arrow.list_(arrow.string()), "count": arrow.int64(), "flag": arrow.bool_(),
             "float": arrow.float64()}  # fmt: skip
    rows = []
    for each in records:
        report, facts, summary = each["report"], each["facts"] or {}, each["report"]["summary"]
        rows.append({
            **{name: text(each.get(name)) for name in ("url", "etag", "sha256", "same_as", "rules")},
            **{name: text(facts.get(name)) for name in ("architecture", "producer", "layout")},
            **{name: summary[name] for name in ("errors", "warnings", "notes")},
            "size": report.get("size") if each["size"] is None else each["size"],
            "ok": report["ok"], "readable": bool(summary.get("readable")), "skipped": "skipped" in report,
            "bugs": len(report["bugs"]), "seconds": each["seconds"],
            "codes": sorted({found["code"] for found in report["findings"]} | set(summary["elided"])),
            "loads": [text(one["runtime"]) for one in report.get("runtimes", ()) if one["loads"] == "yes"],
        })  # fmt: skip
    return arrow.Table.from_pylist(rows, schema=arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS]))


@pytest.mark.parametrize("count", [0, 1, 6, 40])
def test_the_table_is_what_arrow_makes_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(results, "BATCH_ROWS", 6)
    assert write_parquet(varied(count), tmp_path / "t.parquet") == count
    found = read_table(tmp_path / "t.parquet")
    assert found.equals(defined(varied(count)))
    groups = arrow.parquet.ParquetFile(tmp_path / "t.parquet").metadata.num_row_groups
    assert groups == -(-count // 6)


def test_a_table_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"before")
    with pytest.raises(KeyError):
        write_parquet([record("a"), {"url": "b"}], tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_the_last_record_of_each_address_counts(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsLog(path) as log:
        log.append([record("a"), record('\udcff"\\'), record("a", "f"), record("c"), record("c", key="other")])
    other = {"schema_version": 1, "rules": "r", **record("a", "g")}
    with path.open("ab") as stream:
        stream.write(json.dumps(dict(reversed(other.items()))).encode() + b"\n")  # another program may write this order
        stream.write(b'{"schema_version": 1, "url": "a"}\n')
    expected = [('\udcff"\\', "e"), ("c", "e"), ("a", "g")]
    assert [(each["url"], each["etag"]) for each in latest(path)] == expected


def test_unusual_results_do_not_stop_the_table(tmp_path: Path) -> None:
    """Whatever is a record to the log has a row."""
    strange = record(
        "a", runtimes=[7, {"runtime": "\udcff", "loads": "yes"}], findings=[{"code": "\ud800<b>"}], size=True,
        summary={"errors": 1 << 70, "notes": True, "elided": {"\udc80": {}}}, facts={"producer": 5},
    )  # fmt: skip
    bare = record("b", runtimes="all", size=1 << 64)
    del bare["size"], bare["seconds"]
    path = tmp_path / "r.jsonl"
    lines = [json.dumps(each) for each in (strange, bare, record("c") | {"seconds": "long", "size": -1.5, "sha256": 3})]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with ResultsLog(path) as log:
        assert (len(log), log.damaged) == (3, 0)
    assert write_parquet(latest(path), tmp_path / "t.parquet") == 3
    rows = read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["size"] for row in rows] == [10, None, None]
    assert [row["seconds"] for row in rows] == [0.0, None, None]
    assert (rows[0]["errors"], rows[0]["codes"], rows[0]["loads"]) == (None, ["\\ud800<b>", "\\x80"], ["\\xff"])


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="only POSIX ends programs by signals")
def test_a_run_that_is_told_to_end_leaves_no_part_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.cli import main

    def run(*_: Any) -> Iterator[tuple[str, Any]]:
        with ResultsTable(tmp_path / "r.parquet") as table:
            table.add(record("a"))
            os.kill(os.getpid(), signal.SIGTERM)
            yield "a", record("a")["report"]

    monkeypatch.setattr("i2s_spec.cli.cluster.engine_run", run)
    before = signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # otherwise a missing handler in the verb would end the tests
    try:
        with pytest.raises(SystemExit) as stop:
            main(["lint", "--engine", "dask", "a.gguf"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (stop.value.code, list(tmp_path.iterdir())) == (143, [])


class Cluster:
    """In place of a cluster: it judges at once, or is lost on the way."""

    lost_after: int | None = None
    asked = 0

    def __init__(self, scheduler: str | None, workers: int) -> None:
        type(self).asked += 1

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def on_this_process(
    client: Cluster, coordinator: Any, options: Any, key: str, sync: Any, folders: Any
) -> Iterator[Record]:
    """In place of the run on Dask."""
    for count, found in enumerate(iter(lambda: next(_one(coordinator, key), None), None)):
        if count == Cluster.lost_after:
            raise Unfinished("lost")
        yield found


def _one(coordinator: Any, key: str) -> Iterator[Record]:
    yield from islice(coordinator.records(), 1)
    while (batch := coordinator.next(0.0)) is not None:
        coordinator.done(batch, [record(entry.url, entry.etag, key) for entry in batch.entries])
        yield from islice(coordinator.records(), 1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "dask_client", Cluster)
    monkeypatch.setattr(module, "run_on_dask", on_this_process)
    monkeypatch.setattr(results, "BATCH_ROWS", 3)
    Cluster.lost_after, Cluster.asked = None, 0

    def go(entries: Iterable[Entry]) -> tuple[int, list[str]]:
        said: list[str] = []
        paths = tmp_path / "r.jsonl", tmp_path / "r.parquet"
        found = list(module.lint_manifest(entries, defaults(), paths[0], table=paths[1], say=said.append))
        assert read_table(paths[1]).equals(defined(latest(paths[0])))
        return len(found), said

    return go


def entries(count: int, version: str = "v") -> list[Entry]:
    return [Entry(f"https://hub.example/{i}.gguf", f"{version} {i}", 10) for i in range(count)]


def test_a_run_its_repetition_and_another_have_the_table_of_their_results(run: Any, tmp_path: Path) -> None:
    count, said = run(entries(8))
    assert (count, said) == (8, [f"8 results are in {tmp_path}/r.jsonl, a table of them in {tmp_path}/r.parquet"])
    count, said = run(entries(8))
    assert (count, Cluster.asked, len(said)) == (8, 1, 2)
    assert run([*entries(4), *entries(12)[10:], *entries(3, "new")])[1][-1].startswith("10 results")
    assert read_table(tmp_path / "r.parquet")["etag"].to_pylist()[-3:] == ["new 0", "new 1", "new 2"]


def test_a_run_that_goes_on_has_the_whole_table(run: Any, tmp_path: Path) -> None:
    Cluster.lost_after = 5
    with pytest.raises(Unfinished):
        run(entries(9))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl"]
    Cluster.lost_after = None
    assert run(entries(9))[0] == 9


def test_an_address_that_comes_twice_has_one_row(run: Any) -> None:
    assert run([*entries(4), *entries(2, "again")])[1][-1].startswith("4 results")
