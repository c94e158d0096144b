"""`show --plot`: scales by layer and shares of codes of real numbers, on narrow terminals and on ASCII streams."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import model_bytes
from click.testing import CliRunner

from i2s_spec.cli.look import show_command
from i2s_spec.draw.terminal import BLOCKS, plain
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as read
from i2s_spec.gguf.source import source_of
from i2s_spec.inspect.show_text import plots
from i2s_spec.testing.sample import Draft


def lines(data: bytes, **options: object) -> list[str]:
    return [plain(line) for line in plots(File(source_of(data)), **options)]  # type: ignore[arg-type]


def test_scales_stand_in_the_order_of_layers() -> None:
    data = model_bytes(layers=12)
    scales = [float(read(data).tensors[f"blk.{layer}.attn_q.weight"].scale()) for layer in range(12)]
    (line,) = [line for line in lines(data)[: lines(data).index("")] if line.startswith("  attn_q ")]
    spark = line.split()[1]
    heights = [BLOCKS.index(sign) for sign in spark]
    assert len(spark) == 12
    assert heights[scales.index(max(scales))] == 7
    assert heights[scales.index(min(scales))] == 0
    assert all(heights[a] <= heights[b] for a in range(12) for b in range(12) if scales[a] < scales[b])


def test_shares_are_those_of_the_codes() -> None:
    data = model_bytes(layers=2)
    found = [read(data).tensors[f"blk.{layer}.ffn_up.weight"].trits() for layer in range(2)]
    share = sum(int((trits == 0).sum()) for trits in found) / sum(trits.size for trits in found)
    (line,) = [line for line in lines(data)[lines(data).index("") :] if line.startswith("  ffn_up ")]
    assert re.findall(r"[\d.]+%", line)[1] == f"{share:.1%}"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_narrow_terminals_put_layers_together(columns: int) -> None:
    said = lines(model_bytes(layers=40), available=columns, blocks=False)
    assert all(line.isascii() for line in said)
    assert ("layers to a character" in said[0]) == (columns < 90)


def test_scales_that_are_not_finite_are_seen() -> None:
    data = bytearray(model_bytes(layers=3))
    tail = read(bytes(data)).tensors["blk.1.attn_k.weight"].tail_span
    data[tail.start : tail.start + 4] = b"\x00\x00\xc0\x7f"
    (line,) = [line for line in lines(bytes(data)) if line.startswith("  attn_k ") and "!" in line]
    assert line.split()[1][1] == "!"
    assert line.endswith("1 not finite")


def test_tensors_in_no_layer_and_files_without_any() -> None:
    assert lines(Draft().data)[0] == "Scales  of tensors in no layer"
    assert lines(Draft().data[:300]) == ["There is no I2_S tensor whose payload can be read."]


def test_the_verb_draws_and_refuses_other_options(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(model_bytes())
    done = CliRunner().invoke(show_command, ["--plot", str(path)], standalone_mode=False)
    assert done.return_value == 0
    assert done.stdout.startswith("Scales  layers 0 to ")
    assert "takes no other option" in str(CliRunner().invoke(show_command, ["--plot", "--json", str(path)]).stderr)
    path.write_bytes(path.read_bytes()[:20])
    assert CliRunner().invoke(show_command, ["--plot", str(path)], standalone_mode=False).return_value == 1
