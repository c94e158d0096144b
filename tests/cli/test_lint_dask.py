"""`i2s lint --engine dask` with a cluster of processes, while workers and the scheduler are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.testing.sample import Draft

sys.path += [str(Path(__file__).parents[1] / name) for name in ("remote", "checkpoints")]
from range_server import Handler, Seen, Server, serving
from tiny_checkpoints import packed_2b4t

pytest.importorskip("distributed", reason="the extra [dask] is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [dask] is not installed")

#: Timeout of a step in seconds; generous, because machines are shared.
LONG = 240


def i2s(*args: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "i2s_spec", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=cwd,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LONG)
    return process.returncode, out, err


def lines(place: Path) -> list[dict[str, Any]]:
    """Whole lines of the results."""
    if not place.exists():
        return []
    return [json.loads(line) for line in place.read_bytes().split(b"\n")[:-1]]


def models(place: Path, count: int) -> Path:
    """Small files of different contents."""
    folder = place / "models"
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:05d}.gguf").write_bytes(Draft().data + i.to_bytes(4, "little"))
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def test_a_run_is_repeated_and_only_changes_are_checked_again(tmp_path: Path, server: Server) -> None:
    folder = models(tmp_path, 12)
    server.files["/m.gguf"] = Draft().data
    address = f"{server.url}/m.gguf"
    (folder / "copy.gguf").write_bytes((folder / "00003.gguf").read_bytes())
    (folder / "text.gguf").write_text("no model", encoding="utf-8")
    (tmp_path / "list.txt").write_text(f"models\nmissing.gguf\n{address}\n", encoding="utf-8")
    form = ("--allow-private", "--format", "jsonl")
    arguments = ("lint", "--engine", "dask", "--jobs", "1", "--results", "r.jsonl", *form, "list.txt")
    code, out, err = ended(i2s(*arguments, cwd=tmp_path))
    assert (code, err.count("Traceback")) == (3, 0), err
    local = ended(i2s("lint", *form, str(folder), str(tmp_path / "missing.gguf"), address, cwd=tmp_path))

    def reports(text: str) -> dict[str, Any]:
        found = [json.loads(line) for line in text.splitlines()]
        return {each["path"]: each for each in found if "path" in each}

    assert reports(out) == reports(local[1])
    assert len(reports(out)) == 16
    assert {line["etag"] for line in lines(tmp_path / "r.jsonl") if line["url"] == address} == {'"one"'}
    table = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert {row["url"]: row["ok"] for row in table} == {path: each["ok"] for path, each in reports(out).items()}
    assert sum(row["same_as"] is not None for row in table) == 1

    before = len(lines(tmp_path / "r.jsonl"))
    (folder / "00000.gguf").write_bytes(b"changed")
    again = ended(i2s(*arguments, cwd=tmp_path))
    assert "i2s: 13 of 16 files have results from an earlier run" in again[2]
    assert "i2s: unchanged on their servers, so with their earlier results: 1 of 1 file" in again[2]
    assert len(lines(tmp_path / "r.jsonl")) == before + 2  # the changed file and the missing one
    assert {path for path, each in reports(again[1]).items() if not each["ok"]} == {
        str(folder / "00000.gguf"), str(folder / "text.gguf"), str(tmp_path / "missing.gguf"),
    }  # fmt: skip


@pytest.mark.thorough
def test_checkpoints_are_checked_on_a_cluster_too(tmp_path: Path) -> None:
    for seed, name in enumerate(("good", "bad")):
        packed_2b4t(seed).write(tmp_path / "all" / name)
    (tmp_path / "all" / "bad" / "config.json").write_text("[", encoding="utf-8")
    models(tmp_path / "all", 2)
    arguments = ("lint", "--engine", "dask", "--jobs", "1", "--format", "jsonl", "all")
    code, out, err = ended(i2s(*arguments, cwd=tmp_path))
    assert code == 1, err
    found = {each["path"]: each for each in map(json.loads, out.splitlines()) if "path" in each}
    local = ended(i2s("lint", "--format", "jsonl", str(tmp_path / "all"), cwd=tmp_path))
    assert found == {each["path"]: each for each in map(json.loads, local[1].splitlines()) if "path" in each}
    assert {Path(path).name: each["ok"] for path, each in found.items() if not path.endswith(".gguf")} == {
        "good": True, "bad": False,
    }  # fmt: skip
    assert "4 of 4 files have results" in ended(i2s(*arguments, cwd=tmp_path))[2]


def test_results_that_were_found_decide_nothing(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with the right address, ETag and rules, for a file that is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, found = tmp_path / "clone", tmp_path / "clone" / "i2s-results.jsonl"
    folder.mkdir()
    address = f"{server.url}/m.gguf"
    server.files["/m.gguf"] = Draft().data
    arguments = ("lint", "--engine", "dask", "--jobs", "1", "--allow-private", address)
    security = (*arguments, "--profile", "security")

    def forged(*call: str) -> None:
        """A record of the good file, as anybody could write it."""
        found.unlink(missing_ok=True)
        server.files["/m.gguf"] = Draft().data
        assert ended(i2s(*call, cwd=folder))[0] == 0
        record = lines(found)[-1]
        assert record.pop("seal")
        found.write_text(json.dumps(record) + "\n", encoding="utf-8")
        server.files["/m.gguf"] = b"junk" + Draft().data[4:]

    forged(*arguments)
    code, _, err = ended(i2s(*arguments, cwd=folder))
    assert (code, "1 result of an earlier run is in i2s-results.jsonl and not used" in err) == (3, True), err
    forged(*security)
    assert ended(i2s(*security, cwd=folder))[0] == 3
    forged(*security)
    code, _, err = ended(i2s(*security, "--results", found.name, cwd=folder))
    assert (code, "with earlier results in i2s-results.jsonl" in err) == (0, True), err

    # The records of this user count, but not with the profile of security.
    assert ended(i2s(*arguments, cwd=folder))[0] == 3
    server.files["/m.gguf"] = Draft().data  # with the same ETag
    code, _, err = ended(i2s(*arguments, cwd=folder))
    assert (code, "with their earlier results: 1 of 1 file" in err) == (3, True), err
    assert ended(i2s(*security, cwd=folder))[0] == 0

    found.unlink()
    found.symlink_to(tmp_path / "elsewhere.jsonl")
    code, _, err = ended(i2s(*arguments, cwd=folder))
    assert (code, "is a link" in err, (tmp_path / "elsewhere.jsonl").exists()) == (2, True, False)
    found.unlink()
    found.write_text("{", encoding="utf-8")
    assert ended(i2s(*arguments, cwd=folder))[0] == 2
    assert found.read_text(encoding="utf-8") == "{"


@pytest.mark.thorough
def test_only_this_process_can_use_the_cluster_that_it_starts(tmp_path: Path) -> None:
    from distributed import Client

    from i2s_spec.linter.cluster.run import dask_client

    with dask_client(None, 1) as client:
        scheduler = client.cluster.scheduler
        assert scheduler.address.startswith("tls://")
        assert all(worker.startswith("tls://") for worker in client.nthreads())
        assert not scheduler.services
        assert not client.run(lambda dask_worker: bool(dask_worker.services)).popitem()[1]
        with pytest.raises((OSError, ValueError)):
            Client(scheduler.address.replace("tls://", "tcp://"), timeout=2, set_as_default=False)
        assert client.submit(os.getpid).result() != os.getpid()

        class UnpicklableError(Exception):
            """An exception that another process cannot make again."""

            def __init__(self, one: object, other: object) -> None:
                super().__init__(one)
                self.lock = threading.Lock()

            def __str__(self) -> str:
                raise ValueError

        def raising() -> None:
            raise UnpicklableError(1, 2)

        with pytest.raises(
            Exception, match=r"UnpicklableError|ValueError"
        ):  # an answer like others, for which nobody waits
            client.submit(raising).result(timeout=LONG)


@pytest.mark.thorough
def test_workers_that_are_killed_while_they_start_end_the_run_early(tmp_path: Path) -> None:
    models(tmp_path, 3)
    run = i2s("lint", "--engine", "dask", "--jobs", "2", "--results", "r.jsonl", "models", cwd=tmp_path)
    start = time.monotonic()
    while run.poll() is None and time.monotonic() - start < LONG:
        for each in spawned(run.pid):
            killed(each)
        time.sleep(0.02)
    code, _, err = ended(run)
    assert code == 75, err
    assert "the cluster on this machine did not start: a worker ended while it started; the results are kept" in err


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="a limit for the size of files")
def test_a_full_disk_ends_the_run_early(tmp_path: Path) -> None:
    """The largest size of a file stands for the disk: both stop a write in its middle."""
    models(tmp_path, 60)
    arguments = ("lint", "--engine", "dask", "--jobs", "1", "--results", "r.jsonl", "models")
    command = f"ulimit -f 40; exec {sys.executable} -m i2s_spec {' '.join(arguments)}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 75, done.stderr
    assert re.search(r"r\.jsonl: File too large after \d+ of 60 files; the results are kept", done.stderr)
    before = lines(tmp_path / "r.jsonl")
    assert 0 < len(before) < 60
    code, _, err = ended(i2s(*arguments, cwd=tmp_path))
    assert (code, "incomplete" in err) == (0, False), err
    assert len(lines(tmp_path / "r.jsonl")) == 60


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--scheduler", "tcp://127.0.0.1:9"], "--scheduler applies only with --engine dask"),
        (["--results", "r.jsonl"], "--results applies only with"),
        (["--rate", "hub=1/2"], "--rate applies only with"),
        (["--in-flight", "5"], "--in-flight applies only with"),
        (["--engine", "dask", "--rate", "hub"], "is not of the form HOST=REQUESTS/SECONDS"),
        (["--engine", "dask", "--rate", "hub=0/5"], "is not of the form"),
        (["--engine", "dask", "--rate", "hub=nan/5"], "is not of the form"),
        (["--engine", "dask", "--results", "m.parquet"], "must end in .jsonl"),
        (["--engine", "dask", "--results", "other.jsonl"], "is not a file of results"),
        (["--engine", "dask", "--results", "mine.jsonl"], "mine.parquet is no table of results"),
        (["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"], "no scheduler answers"),
        (["--engine", "dask", "--scheduler", "nonsense://x"], "no scheduler answers"),
    ],
)
def test_wrong_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                     arguments: list[str], reason: str) -> None:  # fmt: skip
    from i2s_spec.cli import main

    monkeypatch.setattr("i2s_spec.linter.cluster.run.CONNECTING", 0.5)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.gguf").write_bytes(Draft().data)
    (tmp_path / "other.jsonl").write_bytes(b"{")
    (tmp_path / "mine.parquet").write_bytes(b"of somebody")
    with pytest.raises(SystemExit) as stop:
        main(["lint", "m.gguf", *arguments])
    assert stop.value.code == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "m.gguf").read_bytes() == Draft().data


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    from i2s_spec.cli import main

    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.gguf").write_bytes(Draft().data)
    with pytest.raises(SystemExit) as stop:
        main(["lint", "--engine", "dask", "m.gguf"])
    assert stop.value.code == 2
    assert "--engine dask needs the extra [dask] (there is no module distributed): " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.thorough
def test_all_workers_wait_for_a_host_that_asks_one_of_them(tmp_path: Path, server: Server) -> None:
    """While a host asks to wait, it gets only requests in flight; every file has its result at the end."""
    data, seconds = Draft().data, 4.0
    server.files |= {f"/{i}.gguf": data + i.to_bytes(4, "little") for i in range(40)}
    (tmp_path / "list.txt").write_text("".join(f"{server.url}{path}\n" for path in server.files), encoding="utf-8")
    begun: list[float] = []
    refused: list[float] = []

    def limit(handler: Handler, seen: Seen) -> bool:
        now = time.monotonic()
        if handler.number <= 10:
            return False
        begun.append(now)
        left = begun[0] + seconds - now
        if left <= 0:
            return False
        refused.append(now)
        handler.answer(429, {"Retry-After": str(int(left) + 1)})
        return True

    server.faults.append(limit)
    arguments = ("lint", "--engine", "dask", "--jobs", "2", "--results", "r.jsonl", "--allow-private", "list.txt")
    code, _, err = ended(i2s(*arguments, cwd=tmp_path))
    assert (code, err.count("Traceback")) == (0, 0), err
    found = lines(tmp_path / "r.jsonl")
    assert Counter(Counter(line["url"] for line in found).values()) == {1: 40}
    assert not any(finding["code"] == "S913" for line in found for finding in line["report"]["findings"])
    # A batch ends at the first refusal. At most the batches then in flight make one more request.
    assert 1 <= len(refused) <= 6
    assert len(server.seen) == 40 + len(refused)


# --- killed in the middle -----------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A scheduler and two workers under nannies, each a process of its own.

    Both workers have registered: a nanny whose worker is killed before that ends the other worker too.
    """
    with ExitStack() as stack:

        def start(*args: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / f"{len(started)}.log").open("wb"))
            process = subprocess.Popen([sys.executable, "-m", *args], stdout=log, stderr=log, cwd=tmp_path)
            started.append(process)
            return process

        started: list[subprocess.Popen[bytes]] = []
        address = tmp_path / "scheduler.json"
        try:
            scheduler = start("distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard",
                              "--scheduler-file", str(address))  # fmt: skip
            waited(lambda: address.exists() and address.read_text().rstrip().endswith("}"))  # it may be incomplete
            found = json.loads(address.read_text())["address"]
            workers = start("distributed.cli.dask_worker", found, "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
                            "--local-directory", str(tmp_path))  # fmt: skip
            log_of_workers = tmp_path / "1.log"
            waited(lambda: log_of_workers.read_bytes().count(b"Registered to:") == 2)
            yield {"address": found, "scheduler": scheduler, "workers": workers}
        finally:
            for process in started:
                for child in [*below(process.pid), process.pid]:
                    killed(child)
                process.wait()


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        other = [
            Path(path).read_text(encoding="utf-8").split() for path in Path(f"/proc/{pid}/task").glob("*/children")
        ]
    except OSError:
        return []
    found = {int(child) for child in [*children, *(each for some in other for each in some)]}
    return [each for child in found for each in [child, *below(child)]]


def runs(pid: int) -> bool:
    """Whether a process is running; a zombie is still listed."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            not in "ZX"
        )
    except OSError:
        return False


def killed(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def waited(until: Any) -> None:
    start = time.monotonic()
    while not until():
        assert time.monotonic() - start < LONG
        time.sleep(0.02)


def spawned(pid: int) -> list[int]:
    """Worker processes below one: those that multiprocessing spawned."""
    found = []
    for child in below(pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in words:
            found.append(child)
    return found


@pytest.mark.thorough
def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    """Processes of a local cluster die three times, as for a file that kills every reader."""
    models(tmp_path, 240)
    results = tmp_path / "r.jsonl"
    run = i2s(
        "lint",
        "--engine",
        "dask",
        "--jobs",
        "2",
        "--results",
        "r.jsonl",
        "--format",
        "json",
        "-o",
        "report.json",
        "models",
        cwd=tmp_path,
    )
    for already in (1, 70, 140):
        waited(lambda already=already: len(lines(results)) >= already or run.poll() is not None)
        victims = spawned(run.pid)
        assert victims, "the run had ended before anybody was killed"
        killed(victims[0])
    code, _, err = ended(run)
    assert "Traceback" not in err
    found = lines(results)
    assert Counter(Counter(line["url"] for line in found).values()) == {1: 240}
    assert not any(line["report"]["bugs"] for line in found)
    assert (code, json.loads((tmp_path / "report.json").read_text())["summary"]["files"]) == (0, 240)


@pytest.mark.thorough
def test_a_scheduler_of_ones_own_retries_as_often_as_it_is_set_to(cluster: dict[str, Any]) -> None:
    from distributed.scheduler import KilledWorker

    from i2s_spec.linter.cluster.run import dask_client

    def limit(dask_scheduler: Any) -> Any:
        return dask_scheduler.allowed_failures

    with dask_client(cluster["address"], 1) as client:
        assert client.run_on_scheduler(limit) == 3
        with pytest.raises(KilledWorker):
            client.submit(os._exit, 1).result(timeout=LONG)


@pytest.mark.thorough
def test_a_killed_scheduler_ends_the_run_and_another_goes_on(tmp_path: Path, cluster: dict[str, Any]) -> None:
    models(tmp_path, 300)
    results = tmp_path / "r.jsonl"
    arguments = ("lint", "--engine", "dask", "--results", "r.jsonl", "-o", "report.txt", str(tmp_path / "models"))
    run = i2s(*arguments, "--scheduler", cluster["address"], cwd=tmp_path)
    waited(lambda: len(lines(results)) >= 30 or run.poll() is not None)
    killed(spawned(cluster["workers"].pid)[0])
    waited(lambda: len(lines(results)) >= 90 or run.poll() is not None)
    killed(cluster["scheduler"].pid)
    code, _, err = ended(run)
    assert code == 75, err
    said = re.search(r"i2s: the scheduler was lost.* after (\d+) of 300 files; the results are kept", err)
    assert said, err
    before = lines(results)
    assert len(before) == int(said[1]) < 300
    code, _, err = ended(i2s(*arguments, "--jobs", "2", cwd=tmp_path))
    assert f"{len(before)} of 300 files have results" in err
    found = lines(results)
    assert Counter(Counter(line["url"] for line in found).values()) == {1: 300}
    assert (code, found[: len(before)]) == (0, before)


@pytest.mark.thorough
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    models(tmp_path, 200)
    results = tmp_path / "r.jsonl"
    arguments = ("lint", "--engine", "dask", "--jobs", "2", "--results", "r.jsonl", "-o", "report.txt", "models")
    run = i2s(*arguments, cwd=tmp_path)
    waited(lambda: len(lines(results)) >= 60 or run.poll() is not None)
    workers = spawned(run.pid)
    killed(run.pid)
    assert ended(run)[0] == -signal.SIGKILL
    with results.open("r+b") as stream:
        stream.truncate(results.stat().st_size - 20)  # as if the disk was full during the last line
    waited(lambda: not any(map(runs, workers)))  # workers end when their client does
    code, _, err = ended(i2s(*arguments, cwd=tmp_path))
    assert "an incomplete last line of" in err
    assert Counter(Counter(line["url"] for line in lines(results)).values()) == {1: 200}
    assert code == 0
