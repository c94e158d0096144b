"""Real readers from the registries, fuzzed as programs: their known bugs are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from malformed_cases import broken
from peers.programs import PROGRAM

from i2s_spec.fuzzing.bounded_process import Bounds, Command
from i2s_spec.fuzzing.campaign import Campaign, CampaignSettings
from i2s_spec.fuzzing.expectations import DecoderPolicy, ReadDepth
from i2s_spec.fuzzing.inputs import sound

DECODERS = Path(__file__).resolve().parents[2] / "fuzz" / "decoders"


def found(command: Command, policy: DecoderPolicy, *names: str, seconds: float = 300) -> set[tuple[str, str | None]]:
    plain = [(made.what, made.data) for made in sound()[:3]]
    files = (plain if names else plain[2:]) + [(name, broken(name)) for name in names]
    with Campaign(command, CampaignSettings(policy=policy, bounds=Bounds(seconds=seconds), jobs=2)) as campaign:
        for _ in campaign.replay(files):
            pass
    assert campaign.totals["runs"] == len(files)
    return {(find.kind, find.code) for find in campaign.findings}


@pytest.mark.thorough
def test_the_python_package_gguf() -> None:
    gguf = pytest.importorskip("gguf", reason="the extra [gguf] is not installed")
    command = Command([sys.executable, str(DECODERS / "gguf_python.py")])
    names = ("nk_over", "trunc_f32", "key_len_huge", "dup_key", "lfs_pointer")
    finds = found(command, DecoderPolicy(supports=frozenset({"alignment"})), *names)
    assert finds == set()
    if hasattr(gguf.GGMLQuantizationType, "I2_S"):
        pytest.skip("this version knows I2_S")
    assert ("rejects", None) in found(command, DecoderPolicy())


@pytest.mark.thorough
def test_the_python_package_gguf_hangs() -> None:
    pytest.importorskip("gguf", reason="the extra [gguf] is not installed")
    from importlib.metadata import version

    if version("gguf") != "0.19.0":
        pytest.skip("what is wrong with version 0.19.0")
    command = Command([sys.executable, str(DECODERS / "gguf_python.py")])
    with Campaign(command, CampaignSettings(bounds=Bounds(seconds=4))) as campaign:
        for _ in campaign.replay([("arr_len_huge", broken("arr_len_huge"))]):
            pass
    (hang,) = campaign.findings
    assert hang.kind in ("hang", "memory")  # it loops and allocates; which limit comes first depends on the machine
    assert (hang.code, hang.clause, hang.confirmed) == ("G213", "2.5", True)


def test_huggingface_gguf_of_npm() -> None:
    program = PROGRAM["@huggingface/gguf"]
    if (reason := program.missing()) is not None:
        pytest.skip(reason)
    command = Command(["node", str(DECODERS / "huggingface.mjs"), str(program.folder), "{}"])
    names = (
        "nk_over",
        "key_len_huge",
        "kv_type_bad",
        "arr_type_bad",
        "html",
        "trunc_data",
        "trunc_header",
        "trunc_key",
        "trunc_infos",
        "dup_key",
    )
    finds = found(command, DecoderPolicy(ReadDepth.HEADER), *names)
    if program.version == "0.4.6":
        assert finds == {
            ("accepts", "G101"),
            ("accepts", "G201"),
            ("accepts", "G301"),
        }  # missing bytes are read as zeros
    assert not {kind for kind, _ in finds} & {"crash", "hang", "memory", "rejects"}
