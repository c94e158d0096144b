"""The benchmarks run on small input; tests do not check speeds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from peers.programs import PROGRAM

import i2s_spec as i2s
from bench import headers, runtimes
from bench.__main__ import PARTS, benchmarks_of
from bench.measure import Claim, Contender, Setting, interleaved, ratios
from bench.report import RESULTS, SCHEMA_VERSION, as_lines, shown_value

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tests/bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.thorough
def test_quick_run(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = bench("container", "--quick", "--json", str(out))
    assert (run.returncode, run.stderr) == (0, "")
    if (reason := PROGRAM["@huggingface/gguf"].missing()) is not None:
        assert reason in run.stdout
    assert "the same was read by all" in run.stdout

    result = json.loads(out.read_text())
    assert (result["schema_version"], result["part"], result["quick"]) == (2, "container", True)
    assert list(result["benchmarks"]) == ["read", "memory", "hostile"]
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


def test_claims_of_an_article_are_compared_with_numpy_before_they_are_timed(tmp_path: Path) -> None:
    out = tmp_path / "claims.json"
    done = bench("claims", "--quick", "--json", str(out), "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))["benchmarks"]
    assert list(found) == ["zeros", "quantizing", "unpacking"]
    assert {row["name"].partition(":")[0] for row in found["zeros"]["rows"]} >= {"i2s_spec"}
    if "no C compiler" in done.stdout:
        pytest.skip("no C compiler")
    assert len(found["zeros"]["rows"]) == 25
    assert [claim["claim"].partition(":")[0] for claim in found["quantizing"]["claims"]] == ["128 x 128", "256 x 256"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    assert bench("nothing").returncode == 2
    assert bench("--rounds", "0").returncode == 2


def test_result_files_are_current() -> None:
    """Each committed result is a full run of an existing part, in the current format, on the processor that names its file.

    One processor has every benchmark of a part that needs no programs of others; another may lack those that came after it
    was measured.
    """
    whole = set()
    for path in RESULTS.glob("*.json"):
        parts = json.loads(path.read_text())
        assert as_lines(parts) + "\n" == path.read_text()
        for part, result in parts.items():
            assert (result["schema_version"], result["part"], result["quick"]) == (SCHEMA_VERSION, part, False)
            assert result["machine"]["processor"] == path.stem
            names = [benchmark.name for benchmark in benchmarks_of(part)]
            assert list(result["benchmarks"]) == [name for name in names if name in result["benchmarks"]]
            if set(names) - set(result["benchmarks"]) <= {"runtimes"}:
                whole.add(part)
            for benchmark in result["benchmarks"].values():  # a result merged from another run names its own machine
                assert benchmark.get("machine", result["machine"])["processor"] == path.stem
    assert whole == set(PARTS)


@pytest.mark.thorough
def test_header_is_that_of_the_real_model(tmp_path: Path) -> None:

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

    ours, theirs = (headers.bitnet(share=64, ternary=kind) for kind in (headers.I2_S, headers.TQ2_0))
    assert len(ours.data) == len(theirs.data)
    files = [i2s.open(header.data) for header in (ours, theirs)]
    changed = {i for i, (a, b) in enumerate(zip(ours.data, theirs.data, strict=True)) if a != b}
    for tensor in files[0].tensors.values():
        changed -= set(range(tensor.info_span.stop - 12, tensor.info_span.stop))
    assert not changed


@pytest.mark.parametrize(("name", "keys", "tensors"), [("many_keys", 300, 0), ("many_tensors", 1, 300)])
def test_hostile_headers_are_valid_files(name: str, keys: int, tensors: int, tmp_path: Path) -> None:

    path = getattr(headers, name)(300).write(tmp_path / "hostile.gguf")
    with i2s.open(path) as file:
        assert (len(file.metadata), len(file.tensors)) == (keys, tensors)
        assert all(len(tensor.read()) == 32 for tensor in file.tensors.values())


def test_rounds_interleave_and_ratios_pair() -> None:

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

    assert shown_value(value, unit) == text


def test_other_runtimes_are_timed_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named; bitnet.cpp is what a folder has as llama-bench."""
    tool = tmp_path / "build" / "bin" / "llama-bench"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!{sys.executable}\nimport json\nprint('a line'); print(json.dumps([{{'avg_ts': 0.5}}]))\n")
    tool.chmod(0o755)
    monkeypatch.setattr(runtimes, "PROGRAM", {})
    monkeypatch.setattr(runtimes, "missing", lambda: ["nothing else"])
    monkeypatch.setattr(runtimes, "runtimes", lambda setting, ours: [ours_alone(ours)])
    monkeypatch.setenv(runtimes.BITNETCPP, str(tmp_path))

    def ours_alone(ours: Path) -> runtimes.Runtime:
        script = str(ROOT / "tests" / "peers" / "children" / "timed_runtime.py")
        return runtimes.Runtime(runtimes.OURS, (sys.executable, script, "i2s-spec", "-"), ours)

    i2s.new(tmp_path / "model.gguf", layers=1)
    found = runtimes.measured(Setting(True, 1, tmp_path, lambda text: None), tmp_path / "model.gguf", 2)
    assert [row.name for row in found.rows[:2]] == [
        "i2s-spec, I2_S: prompt of 16, 1 thread", "bitnet.cpp, I2_S: prompt of 16, 1 thread"
    ]  # fmt: skip
    assert [row.values for row in found.rows if row.name.startswith("bitnet.cpp")] == [(0.5, 0.5)] * 5
    assert len(found.claims) == 5  # processor seconds of another program's processes are not known
    assert all(value > 0 for claim in found.claims for value in claim.values)
    assert found.notes[0] == "nothing else"
