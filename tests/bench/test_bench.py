"""The benchmarks run on small input; tests do not check speeds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def checkout() -> Iterator[None]:
    """The benchmarks are no part of the package: they are imported from the checkout."""
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_quick_run(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = bench("container", "--quick", "--peers", str(tmp_path / "none"), "--json", str(out))
    assert (run.returncode, run.stderr) == (0, "")
    assert "@huggingface/gguf not installed" in run.stdout
    assert "python -m bench --install" in run.stdout
    assert "the same was read by all" in run.stdout

    result = json.loads(out.read_text())
    assert (result["schema_version"], result["part"], result["quick"]) == (1, "container", True)
    assert list(result["benchmarks"]) == ["read", "memory", "lint", "hostile"]
    assert result["machine"]["python"] == sys.version.split()[0]
    for benchmark in result["benchmarks"].values():
        assert all(row["low"] <= row["median"] <= row["high"] for row in benchmark["rows"])
        assert all(claim["reached"] is None for claim in benchmark["claims"])
    text = {row["name"] for row in result["benchmarks"]["read"]["rows"]}
    assert {"i2s_spec", "i2s_spec, mapped", "i2s_spec, all strings", "gguf.GGUFReader"} <= text
    assert list(tmp_path.iterdir()) == [out]


def test_codec_has_the_types_with_a_scale_for_each_group(tmp_path: Path) -> None:
    out = tmp_path / "codec.json"
    done = bench("codec", "--quick", "--only", "PTQ1_0", "--json", out, "--folder", tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["benchmarks"]["PTQ1_0"]
    names = [row["name"] for row in found["rows"]]
    assert names == ["read probe", "copy probe", "unpack", "pack", "dequantize", "histogram"]
    assert all(row["low"] > 0 for row in found["rows"])
    assert bench("blocks", "--quick").returncode == 2


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    assert bench("nothing").returncode == 2
    assert bench("--rounds", "0").returncode == 2


def test_result_files_are_current() -> None:
    """Each committed result is a full run of an existing part, in the current format, on the processor of its folder.

    One processor has every benchmark of a part; another may lack those that came after it was measured.
    """
    from bench.compare import RESULTS
    from bench.parts import PARTS, UNMEASURED, benchmarks_of
    from bench.report import SCHEMA_VERSION

    assert {path.stem for path in RESULTS.glob("*/*.json")} >= set(PARTS) - set(UNMEASURED)
    assert not list(RESULTS.glob("*.json"))
    whole = set()
    for path in RESULTS.glob("*/*.json"):
        result = json.loads(path.read_text())
        assert (result["schema_version"], result["part"], result["quick"]) == (SCHEMA_VERSION, path.stem, False)
        assert result["machine"]["processor"] == path.parent.name
        names = [benchmark.name for benchmark in benchmarks_of(path.stem)]
        assert list(result["benchmarks"]) == [name for name in names if name in result["benchmarks"]]
        if len(result["benchmarks"]) == len(names):
            whole.add(path.stem)
        for benchmark in result["benchmarks"].values():  # a result merged from another run names its own machine
            assert benchmark.get("machine", result["machine"])["processor"] == path.parent.name
    assert whole >= set(PARTS) - set(UNMEASURED)


@pytest.mark.thorough
def test_header_is_that_of_the_real_model(tmp_path: Path) -> None:
    import i2s_spec as i2s
    from bench import headers

    header = headers.bitnet()
    assert header == headers.bitnet()
    assert (len(header.data), header.keys, header.tensors) == (8_351_360, 24, 332)
    path = header.write(tmp_path / "model.gguf")
    assert path.stat().st_size == 1_187_801_280
    with i2s.open(path) as file:
        assert file.data_start == len(header.data)
        assert Counter(t.type.name for t in file.tensors.values() if t.type) == {"F32": 121, "F16": 1, "I2_S": 210}
        assert file.tensors["blk.0.attn_q.weight"].offset == 672_048_288
        tokens, merges = (file.metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges"))
        assert (len(tokens), len(set(tokens))) == (128_256, 128_256)
        assert (len(merges), len(set(merges))) == (280_147, 280_147)
        assert header.strings == len(tokens) + len(merges)


def test_copies_differ_in_types_and_offsets_only() -> None:
    import i2s_spec as i2s
    from bench import headers

    ours, theirs = (headers.bitnet(share=64, ternary=kind) for kind in (headers.I2_S, headers.TQ2_0))
    assert len(ours.data) == len(theirs.data)
    files = [i2s.open(header.data) for header in (ours, theirs)]
    changed = {i for i, (a, b) in enumerate(zip(ours.data, theirs.data, strict=True)) if a != b}
    for tensor in files[0].tensors.values():
        changed -= set(range(tensor.info_span.stop - 12, tensor.info_span.stop))
    assert not changed


@pytest.mark.parametrize(("name", "keys", "tensors"), [("many_keys", 300, 0), ("many_tensors", 1, 300)])
def test_hostile_headers_are_valid_files(name: str, keys: int, tensors: int, tmp_path: Path) -> None:
    import i2s_spec as i2s
    from bench import headers

    path = getattr(headers, name)(300).write(tmp_path / "hostile.gguf")
    with i2s.open(path) as file:
        assert (len(file.metadata), len(file.tensors)) == (keys, tensors)
        assert all(len(tensor.read()) == 32 for tensor in file.tensors.values())


def test_rounds_interleave_and_ratios_pair() -> None:
    from bench.measure import Contender, interleaved, ratios

    order: list[str] = []

    def runs(name: str, *seconds: float) -> Contender:
        left = list(seconds)

        def run() -> float:
            order.append(name)
            return left.pop(0)

        return Contender(name, run, repeat=len(seconds) // 2)

    times = interleaved([runs("fast", 1, 3, 9, 2, 2, 2), runs("slow", 30, 10)], 2)
    assert order == ["fast"] * 3 + ["slow"] * 2 + ["fast"] * 3
    assert times == {"fast": (3, 2), "slow": (30, 10)}
    assert ratios(times["slow"], times["fast"]) == (10, 5)


def test_claims_are_compared_with_their_bounds() -> None:
    from bench.measure import Claim

    assert Claim("", (1.0, 5.0, 9.0), "x", least=5).reached is True
    assert Claim("", (1.0, 4.0, 9.0), "x", least=5).reached is False
    assert Claim("", (1.0, 5.0), "s", most=2.9).reached is False
    assert Claim("", (1.0,), "s").reached is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.9, "s", "8.90 s"),
        (0.0312, "s", "31.2 ms"),
        (1e-6, "s", "1.00 us"),
        (-0.002, "s", "-2.00 ms"),
        (8_351_360, "B", "7.96 MiB"),
        (100, "B", "0.10 KiB"),
        (7123.4, "x", "7,123 x"),
    ],
)
def test_numbers_are_readable(value: float, unit: str, text: str) -> None:
    from bench.report import shown_value

    assert shown_value(value, unit) == text


def test_starts_are_those_of_the_installed_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import start

    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert start.entry() == ["-m", "i2s_spec"]
    assert start.started_by(start.entry()) == "python -m i2s_spec"
    script = tmp_path / "i2s"
    for text, words in (
        ("import sys\n", "the installed script"),
        ("import re\n", "the installed script, which imports re, as pip wrote it before 25.2"),
    ):
        script.write_text(text)
        assert start.entry() == [str(script)]
        assert start.started_by([str(script)]) == words


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "not installed"),
        ({"INSTALLER": "uv\n"}, "installed from a wheel by uv"),
        ({"INSTALLER": "uv\n", "direct_url.json": '{"dir_info": {}}'}, "installed from a wheel by uv"),
        (
            {
                "INSTALLER": "uv",
                "direct_url.json": '{"dir_info": {"editable": true}}',
                "RECORD": "__editable__.i2s.pth,,\n",
            },
            "installed editable, by a plain path, by uv",
        ),
        (
            {"direct_url.json": '{"dir_info": {"editable": true}}', "RECORD": "__editable___i2s_finder.py,,\n"},
            "installed editable, by a finder of modules, by an unknown installer",
        ),
    ],
)
def test_results_say_how_the_package_is_installed(
    files: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import start

    monkeypatch.setattr(start, "get_path", lambda name: str(tmp_path))
    for name, text in files.items():
        folder = tmp_path / "i2s_spec-1.0.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: i2s-spec\nVersion: 1.0\n")
        (folder / name).write_text(text)
    for line in files.get("RECORD", "").splitlines():  # newer readers of metadata omit files that do not exist
        (tmp_path / line.partition(",")[0]).touch()
    assert start.installation() == words
