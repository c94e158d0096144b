"""The examples of the tutorial on many files: Dask, Ray Data and Spark give the same results as one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_what_one_process_gives(tmp_path: Path, engine: str) -> None:
    missing = [name for name in ENGINES[engine] if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs java on the path")
    models = tmp_path / "models"
    models.mkdir()
    for i in range(10):
        (models / f"{i}.gguf").write_bytes(Draft().data + bytes(i))
    (models / "bad.gguf").write_bytes(b"no model")
    entries = list(i2s.manifest([str(models)]))
    (tmp_path / "m.jsonl").write_text("".join(as_lines(entries)), encoding="utf-8")
    environment = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "SPARK_LOCAL_IP": "127.0.0.1"}
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"many_{engine}.py"), "m.jsonl", "r.jsonl"],
        cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines()]
    wanted = [i2s.check(entry.as_dict(), profile="security") for entry in entries]
    by_url = {record["url"]: plain(record) for record in found}
    assert by_url == {record["url"]: plain(record) for record in wanted}
    assert len(found) == 11
    census = census_of(latest(tmp_path / "r.jsonl"))
    assert (census.files, census.verdicts["unreadable"]) == (11, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_example_is_short_and_on_its_page(engine: str) -> None:
    page = (EXAMPLES / "many.md").read_text(encoding="utf-8")
    assert f"```i2s-source\nmany_{engine}.py\n```" in page or f"```i2s-source\ntutorials/many_{engine}.py\n```" in page
    assert len((EXAMPLES / f"many_{engine}.py").read_text(encoding="utf-8").splitlines()) <= 35
