"""The examples of the tutorial on many files: Dask, Ray Data and Spark give the same results as one process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.linter.cluster.manifest import as_lines
from i2s_spec.linter.cluster.results import census_of, latest
from i2s_spec.testing.sample import Draft

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "spec" / "tutorials"

#: Each example with its imports.
ENGINES = {"dask": ("dask", "distributed"), "ray": ("ray", "pyarrow"), "spark": ("pyspark", "pandas", "pyarrow")}


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs from run to run."""
    return {name: value for name, value in record.items() if name != "seconds"}


def arguments(engine: str, tmp_path: Path) -> dict[str, Any]:
    """How an example is started; skips the test where its engine cannot run."""
    missing = [name for name in ENGINES[engine] if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs java on the path")
    environment = {
        **os.environ,
        "I2S_TEST_FOLDER": str(tmp_path),
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, str(EXAMPLES / f"many_{engine}.py"), "m.jsonl", "r.jsonl"]
    return {"args": command, "cwd": tmp_path, "env": environment, "encoding": "utf-8"}


def written(tmp_path: Path) -> list[dict[str, Any]]:
    """The records in the results."""
    return [json.loads(line) for line in (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_what_one_process_gives(tmp_path: Path, engine: str) -> None:
    how = arguments(engine, tmp_path)
    models = tmp_path / "models"
    models.mkdir()
    for i in range(10):
        (models / f"{i}.gguf").write_bytes(Draft().data + bytes(i))
    (models / "bad.gguf").write_bytes(b"no model")
    entries = list(i2s.manifest([str(models)]))
    (tmp_path / "m.jsonl").write_text("".join(as_lines(entries)), encoding="utf-8")
    run = subprocess.run(**how, capture_output=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = written(tmp_path)
    wanted = [i2s.check(entry.as_dict(), profile="security") for entry in entries]
    by_url = {record["url"]: plain(record) for record in found}
    assert by_url == {record["url"]: plain(record) for record in wanted}
    assert len(found) == 11
    census = census_of(latest(tmp_path / "r.jsonl"))
    assert (census.files, census.verdicts["unreadable"]) == (11, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_a_check_whose_process_is_killed_loses_nothing(tmp_path: Path, engine: str) -> None:
    """The file is checked again, and so are the others, whose process is another one now."""
    how = arguments(engine, tmp_path)
    if not Path("/proc/self/task").is_dir():
        pytest.skip("children are found in /proc")
    models = tmp_path / "models"
    models.mkdir()
    for i in range(40):
        (models / f"{i}.gguf").write_bytes(Draft().data + bytes(i))
    (tmp_path / "m.jsonl").write_text("".join(as_lines(i2s.manifest([str(models)]))), encoding="utf-8")
    run = subprocess.Popen(**how, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    killed: set[int] = set()
    end = time.monotonic() + 300
    while run.poll() is None and time.monotonic() < end:
        for child in checking(tmp_path) - killed:
            if len(killed) < 2:
                os.kill(child, signal.SIGKILL)
                killed.add(child)
        time.sleep(0.005)
    run.kill()
    assert (run.wait(), len(killed)) == (0, 2)
    found = written(tmp_path)
    assert len({record["url"] for record in found}) == len(found) == 40
    assert sum(len(record["report"]["bugs"]) for record in found) <= 1  # both kills may have met one file


def checking(tmp_path: Path) -> set[int]:
    """The processes that check files for the engine that runs in this folder."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            if b"process_pool" in words[3] and str(tmp_path).encode() in (place / "environ").read_bytes():
                found.add(int(place.name))
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_an_example_is_short_and_on_its_page(engine: str) -> None:
    page = (EXAMPLES / "many.md").read_text(encoding="utf-8")
    assert f"```i2s-source\nmany_{engine}.py\n```" in page or f"```i2s-source\ntutorials/many_{engine}.py\n```" in page
    assert len((EXAMPLES / f"many_{engine}.py").read_text(encoding="utf-8").splitlines()) <= 35
