"""The page "Damage by architecture": counts and differences of the results, and no results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from i2s_site import damage

RESULTS = {
    "judge": "llama.cpp", "warned": {"key-dropped": "so be it"}, "sample": "at most 2 (seed 0)",
    "date": "2026-01-02", "table": "0123456789abcdef",
    "kinds": ["key-dropped", "tensor-extra"],
    "counts": {"llama": [[4, 3, 0, 0], [2, 2, 1, 1]], "mamba": [[0, 0, 2, 0], [2, 2, 0, 0]]},
    "missed": [["llama", "key-dropped", "llama.a|b", "key `x` not found"],
               ["mamba", "key-dropped", "", "dies"], ["mamba", "key-dropped", "", "dies"]],
    "alarms": [["llama", "tensor-extra", "y", "M102"]], "without": {"clip": "no loader"},
}  # fmt: skip

SOUND = {"date": "2026-01-03", "kinds": [["converter: f16", 4, 3, 0, 1]], "found": [["llama--f16.gguf", [], ["T008"]]]}


def page(monkeypatch: pytest.MonkeyPatch, folder: Path, **files: object) -> str:
    (folder / "tests" / "peers").mkdir(parents=True)
    for name, value in files.items():
        (folder / "tests" / "peers" / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    monkeypatch.setattr(damage, "root", lambda: folder)
    return damage.page()


def test_counts_are_summed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = page(monkeypatch, tmp_path, matrix=RESULTS)
    assert "| key dropped | 4 | 3 | 75.0 % | 2 | 0 |" in text
    assert "| tensor extra | 4 | 4 | 100.0 % | 1 | 1 |" in text
    assert "| **all** | 8 | 7 | 87.5 % | 3 | 1 |" in text
    assert "| `mamba` | 2 | 2 | 100.0 % | 2 | 0 |" in text
    assert "`012345678`" in text
    assert "Of key dropped, a warning counts as found: so be it." in text


def test_differences_have_their_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = page(monkeypatch, tmp_path, matrix=RESULTS)
    assert "## Refused, not found: 3" in text
    assert "| `llama` | key dropped | `llama.a\\|b` | `key 'x' not found` |  |" in text
    assert "| `mamba` | key dropped |  | `dies` | 2 |" in text
    assert "| `llama` | tensor extra | `y` | `M102` |  |" in text
    assert "| `clip` | `no loader` |" in text


def test_sound_files_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = page(monkeypatch, tmp_path, matrix=RESULTS, sound=SOUND)
    assert "| converter: f16 | 4 | 3 | 0 | 1 |" in text
    assert "| `llama--f16.gguf` |  | T008 |" in text


def test_a_site_without_results_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "was not run" in page(monkeypatch, tmp_path)
