"""The kernels in use: each table alone, here and with processor features hidden; a wrong name gives one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from examples import share, some
from processors import PROCESSORS

from i2s_spec.cli.look import needs_of_kernels, tables_of_kernels
from i2s_spec.codec import _cpu, isa
from i2s_spec.convert.new import new

#: Processor features that the kernel sets require, for one table or for all others.
AVX2: Final = {"avx2", "fma", "f16c"}
AVX512: Final = {*AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq"}
NEEDS: Final = {
    ("codec", "avx2"): {"avx2"}, ("survey", "avx2"): {"avx2", "popcnt"}, ("", "avx2"): {"avx2"},
    ("sums", "avx2"): AVX2, ("floats", "avx2"): AVX2, ("fast", "avx2"): AVX2,
    ("", "avxvnni"): {"avx2", "avxvnni"}, ("", "avx512"): AVX512, ("", "avx512vl"): AVX512,
    ("survey", "avx512"): {*AVX512, "avx512vpopcntdq", "avx512vbmi"},
    ("blocks", "avx512"): {*AVX512, "avx512vnni", "avx512vbmi"},
    ("products", "avx512"): {*AVX512, "avx512vnni"}, ("products", "avx512vl"): {*AVX512, "avx512vnni"},
    ("products", "amx"): {*AVX512, "avx512vnni", "amxint8"},
    ("", "neon"): {"neon"}, ("", "dotprod"): {"neon", "dotprod"},
    ("", "i8mm"): {"neon", "dotprod", "i8mm"},
}  # fmt: skip

INFO: Final = "import json; from i2s_spec.cli.look import describe; print(json.dumps(describe()))"


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these settings in place of those of this run."""
    environment = {name: value for name, value in os.environ.items() if name not in (isa.VARIABLE, isa.HIDE)}
    return subprocess.run(
        [sys.executable, *words], env=environment | settings, capture_output=True, encoding="utf-8", check=False
    )


@cache
def facts(**settings: str) -> dict[str, Any]:
    """What `i2s info` knows."""
    said = run("-c", INFO, **settings)
    assert said.returncode == 0, said.stderr
    return dict(json.loads(said.stdout))


def test_a_kernel_set_is_available_if_any_table_can_run_it() -> None:
    tables = tables_of_kernels().values()
    assert {each.name for sets in tables for each in sets} == {name for name, _ in isa.names()}
    for name, runs in isa.names():
        assert runs == any(each.available for sets in tables for each in sets if each.name == name)
    order = [name for name, _ in isa.names()]
    for sets in tables:
        assert [each.name for each in sets] == sorted((each.name for each in sets), key=order.index)


@pytest.mark.parametrize("profile", share(PROCESSORS, every=2))
def test_hidden_features_are_missing_in_every_table(profile: str) -> None:
    """Hiding a feature never adds a set, and removes the sets that need it."""
    whole, masked, gone = facts(), facts(I2S_HIDE=PROCESSORS[profile]), set(PROCESSORS[profile].split(","))
    assert masked["processor"] == {name: has and name not in gone for name, has in whole["processor"].items()}
    assert masked["hidden"] == [name for name, has in whole["processor"].items() if has and name in gone]
    has = {name for name, there in masked["processor"].items() if there}
    for name, table in masked["tables"].items():
        for kernels, runs in table["sets"].items():
            needs = NEEDS.get((name, kernels)) or NEEDS.get(("", kernels), set())
            assert runs == (needs <= has), (name, kernels)


def test_reported_requirements_are_the_checked_ones() -> None:
    """The reported requirements of a set are those that its check reads, and the check changes nothing."""
    features = _cpu.features()
    for table, sets in tables_of_kernels().items():
        for each, needs in zip(sets, needs_of_kernels()[table], strict=True):
            wanted = NEEDS.get((table, each.name)) or NEEDS.get(("", each.name), set())
            assert set(needs) - {"popcnt"} == wanted - {"popcnt"}, (table, each.name)
            assert each.available == all(features[name] for name in needs)
    assert _cpu.features() == features


def test_cascade_lake_uses_avx512_where_its_features_suffice() -> None:
    """AVX-512 with VNNI, but neither VPOPCNTDQ nor VBMI: only survey and blocks use another set; no name is refused."""
    told = facts(I2S_HIDE=PROCESSORS["cascade-lake"])
    if not told["processor"].get("avx512vnni"):
        pytest.skip("this processor has no AVX-512 VNNI")
    used = {name: table["in_use"] for name, table in told["tables"].items()}
    assert {name: used[name] for name in ("codec", "blocks", "survey", "products", "sums", "fast")} == {
        "codec": "avx512", "blocks": "avx512vl", "survey": "avx512vl",
        "products": "avx512", "sums": "avx512", "fast": "avx512",
    }  # fmt: skip
    assert told["tables"]["survey"]["missing"] == {"avx512": ["avx512vbmi", "avx512vpopcntdq"]}
    assert told["tables"]["blocks"]["missing"] == {"avx512": ["avx512vbmi"]}
    for name in some(["avx512vl", "avx512", "avx2"]):
        asked = facts(I2S_HIDE=PROCESSORS["cascade-lake"], I2S_ISA=name)["tables"]
        assert asked["products"]["in_use"] == name
        assert asked["survey"]["in_use"] == ("avx2" if name == "avx2" else "avx512vl")


COUNTS: Final = """
import numpy as np
from i2s_spec.codec import kernels
for size in (2047, 2048, 31 * 2048, 32 * 2048 + 100):
    for payload in (np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8), np.full(size, 255, dtype=np.uint8)):
        codes = payload[:, None] >> np.array([0, 2, 4, 6], dtype=np.uint8) & 3
        assert kernels.histogram(payload, 1) == tuple(np.bincount(codes.reshape(-1), minlength=4).tolist())
"""


def test_histograms_are_right_without_bit_counting_instructions() -> None:
    said = run("-c", COUNTS, I2S_HIDE=PROCESSORS["cascade-lake"])
    assert said.returncode == 0, said.stderr


def test_a_requested_set_that_a_table_lacks_is_reported() -> None:
    """Without VPOPCNTDQ, the survey has no set avx512, but products have one; the feature is hidden for any processor."""
    masked = {"I2S_HIDE": PROCESSORS["cascade-lake"]}
    asked = next((name for name, runs in reversed(facts(**masked)["tables"]["products"]["sets"].items()) if runs))
    told = facts(I2S_ISA=asked, **masked)
    assert told["asked"] == asked
    assert told["tables"]["products"] | {"sets": 0, "missing": 0} == {
        "in_use": asked,
        "sets": 0,
        "missing": 0,
        "note": None,
    }
    text = run("-m", "i2s_spec", "info", I2S_ISA=asked, **masked).stdout
    for table in told["tables"].values():
        runs = [name for name, there in table["sets"].items() if there]
        assert list(table["missing"]) == [name for name in table["sets"] if name not in runs]
        for name, missing in table["missing"].items():
            assert missing
            assert f"{name} (needs {', '.join(missing)})" in text
        assert table["in_use"] in runs
        if table["in_use"] != asked:
            assert asked not in runs
            assert table["note"].startswith(f"I2S_ISA is {asked}, which ")
            assert table["note"] in text
    assert ("Hidden:" in text) == bool(told["hidden"])


@pytest.mark.parametrize("words", share((each,) for each in [
    ("lint", "MODEL"), ("lint", "MODEL", "--header-only"), ("lint", "MODEL", "MODEL"), ("show", "MODEL"), ("hash", "MODEL"),
    ("fix", "MODEL", "--dry-run"), ("identify", "MODEL"), ("convert", "MODEL", "OUT", "--to", "F32"), ("info",),
    ("run", "MODEL", "--tokens", "1,2", "-n", "1"), ("rules",), ("explain", "I105"), ("diff", "MODEL", "MODEL"),
    ("golden", "record", "MODEL", "--tokens", "1", "-o", "OUT"), ("sanitize", "MODEL", "-o", "OUT"),
    ("demo",), ("fuzz", "true"),
]), ids=" ".join)  # fmt: skip
def test_a_wrong_name_ends_every_verb_with_one_sentence(words: tuple[str, ...], tmp_path: Path) -> None:
    new(tmp_path / "MODEL")
    unknown = {"I2S_ISA": "mmx"}
    for settings, message in [
        (unknown, f"i2s: I2S_ISA is 'mmx'; there are {', '.join(name for name, _ in isa.names())}\n"),
        ({"I2S_HIDE": "avx2,sse9"}, f"i2s: I2S_HIDE has 'sse9'; there are {', '.join(_cpu.features())}\n"),
    ]:
        said = run(
            "-m",
            "i2s_spec",
            *(str(tmp_path / word) if word in ("MODEL", "OUT") else word for word in words),
            **settings,
        )
        assert (said.returncode, said.stdout, said.stderr) == (2, "", message)
