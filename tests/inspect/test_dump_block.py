"""`dump` of types with a scale for each group: each byte of codes with its weights and elements, each scale separately."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from block_files import file_of_blocks

from i2s_spec.codec import blocks
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.draw.terminal import plain
from i2s_spec.draw.text import json_document
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as opened
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump import Unknown, document, lines, target
from i2s_spec.inspect.dump_codes import BlockColumns, decoded_block
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

#: Types with contiguous rows; test_dump_row_scales.py tests I2_SR.
TYPES = tuple(BLOCK_LAYOUTS)
FILES = {order: file_of_blocks(TYPES, order) for order in ("little", "big")}


def nodes(what: str | None, data: bytes, **options: Any) -> list[dict[str, Any]]:
    file = File(BufferSource(data, "blocks.gguf"))
    shown = "".join(json_document(document(file, target(file, what, **options))))
    found: list[dict[str, Any]] = json.loads(shown)["nodes"]
    return found


def text(what: str, data: bytes, available: int | None = None, width: int = 16, **options: Any) -> str:
    file = File(BufferSource(data, "blocks.gguf"))
    return "".join(plain(line) + "\n" for line in lines(file, target(file, what, **options), width, available))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("name", TYPES)
def test_every_element_and_every_scale_once(name: str, order: Any) -> None:
    with opened(FILES[order]) as file:
        tensor = file.tensors[f"{name}.3"]
        values, scales = blocks.unpack(tensor.read(), tensor.shape, name, byte_order=order)
        span, data_path = tensor.span, f"data[{tensor.index}]"
    found = [node for node in nodes(tensor.name, FILES[order], everything=True) if node["path"].startswith("data[")]
    leaves = [node for node in found if node["kind"] != "record"]
    assert (leaves[0]["start"], leaves[-1]["stop"]) == (span.start, span.stop)
    assert all(left["stop"] == right["start"] for left, right in pairwise(leaves))
    weights = np.full(values.size, 9)
    for node in leaves:
        if node["kind"] == "codes":
            for code in node["codes"]:
                if code["element"] is None:
                    assert (code["at"], BLOCK_LAYOUTS[name].coding) == (None, "digits")
                    continue
                assert weights[code["element"]] == 9
                assert np.ravel_multi_index(code["at"], tensor.shape) == code["element"]
                assert code["code"] == code["weight"] + 1
                weights[code["element"]] = code["weight"]
    assert weights.tolist() == values.reshape(-1).tolist()
    held = [node for node in leaves if node["path"].endswith(".scale")]
    assert [node["value"] for node in held] == scales.tolist()
    front = f"{data_path}.rows[0].scale" if BLOCK_LAYOUTS[name].scale.per == "row" else f"{data_path}.blocks[0].scale"
    assert held[0]["path"] == front


@pytest.mark.parametrize("name", TYPES)
def test_a_path_leads_to_its_byte(name: str) -> None:
    data, layout = FILES["little"], BLOCK_LAYOUTS[name]
    with opened(data) as file:
        tensor = file.tensors[f"{name}.2"]
        start = tensor.span.start
        shape = tensor.shape
    whole = {node["path"]: node for node in nodes(tensor.name, data, everything=True)}
    row = f"data[{tensor.index}]" + (".rows[7]" if layout.scale.per == "row" else "")
    block = f"{row}.blocks[{3 if layout.scale.per == 'row' else 38}]"
    for path in (f"{block}.codes[5]", f"{block}.codes[0]", f"{block}.scale", f"{row}.scale"):
        if path not in whole:
            continue
        shown = nodes(path, data)
        assert shown[-1] == whole[path]
        assert all(node["kind"] == "record" for node in shown[:-1])
    last = nodes(block, data)
    width = blocks_of(shape, name).nbytes // shape[0]
    at = start + 7 * width + layout.type.row_bytes + 3 * layout.nbytes
    assert (last[-1]["stop"] - layout.nbytes, last[-1]["stop"]) == (at, at + layout.nbytes)


def test_the_default_number_of_blocks() -> None:
    shown = nodes("Q2_0.2", FILES["little"])
    assert sum(node["kind"] == "codes" for node in shown) == 16
    assert shown[-1] | {"start": 0, "stop": 0} == {
        "path": "data[0].blocks[1..55]", "start": 0, "stop": 0, "kind": "elided", "what": "blocks", "left": 54,
    }  # fmt: skip
    assert sum(node["kind"] == "codes" for node in nodes("Q2_0.2", FILES["little"], limit=40)) == 32
    rows = nodes("IQ2_BN.2", FILES["little"])
    assert sum(node["kind"] == "codes" for node in rows) == 32
    assert [node["path"].partition("]")[2] for node in rows if node["kind"] == "elided"] == [
        ".rows[0].blocks[2..5]", ".rows[1..11]",
    ]  # fmt: skip


def test_lines() -> None:
    layout = BLOCK_LAYOUTS["PTQ1_0"]
    columns = BlockColumns(layout, (2, 256))
    assert columns.line(24, 255) == "2 +1 @120  2 +1 @122  2 +1 @124  2 +1 @126  2 +1 @?"
    assert columns.line(28 + 1, 0) == "0 -1 @129  0 -1 @145  0 -1 @161  0 -1 @177  0 -1 @193"
    assert BlockColumns(BLOCK_LAYOUTS["TQ2_0"], (1, 256)).line(0, 0xC6) == (
        "10 +1 @0    01  0 @32   00 -1 @64   11  ? @96"
    )
    assert BlockColumns(BLOCK_LAYOUTS["Q2_0"], (1, 64)).line(2, 0xC6) == "10 +1 @0   01  0 @1   00 -1 @2   11 +2 @3"
    shown = text("PTQ1_0.2", FILES["little"], limit=1)
    assert "codes PTQ1_0 digit, weight without scale, @element" in shown
    assert "  digit 0 " in shown
    assert "What the weights of the block are multiplied by, F16. [5.6]" in shown
    narrow = text("PTQ1_0.2", FILES["little"], available=80, width=8)
    assert max(len(line) for line in narrow.splitlines() if "@64" in line) <= 80


def test_reserved_codes_and_digits_beyond() -> None:
    assert [code.weight for code in decoded_block(BLOCK_LAYOUTS["TQ2_0"], (1, 256), 0, 0xFF)] == [None] * 4
    assert [code.weight for code in decoded_block(BLOCK_LAYOUTS["PQ2_0"], (1, 128), 2, 0xFF)] == [2] * 4
    assert decoded_block(BLOCK_LAYOUTS["IQ1_BN"], (2, 64), 15 + 14, 0)[0].element is None


def test_any_byte_of_the_data_is_shown_by_its_address() -> None:
    data = FILES["big"]
    with opened(data) as file:
        start, stop = file.tensors["IQ1_BN.3"].span[:2]
    for at in range(start, stop, 41):
        shown = nodes(f"{at}+3", data)
        assert [(node["start"] <= at + 2, node["stop"] > at) for node in shown] == [(True, True)] * len(shown)
        leaves = [node for node in shown if node["kind"] != "record"]
        assert min(node["start"] for node in leaves) <= at
        assert max(node["stop"] for node in leaves) >= at + 3


@pytest.mark.parametrize("what", ["blocks[55]", "blocks[3].codes[16]", "rows[0]", "blocks[1].cods", "payload[0]"])
def test_unknown_parts_are_refused(what: str) -> None:
    with pytest.raises(Unknown):
        nodes(f"data[0].{what}", FILES["little"])


def test_cut_files_and_rows_of_partial_blocks() -> None:
    whole = FILES["little"]
    with opened(whole) as file:
        tensor = file.tensors["PTQ1_0.2"]
        start, index = tensor.span.start, tensor.index
    cut = whole[: start + 3 * 28 + 5]
    shown = nodes(f"data[{index}]", cut, everything=True)
    assert sum(node["path"].endswith(".scale") for node in shown) == 3
    rest = [node for node in shown if node["kind"] == "bytes"]
    assert [(node["start"], node["stop"]) for node in rest] == [(start + 84, len(cut))]
    at = whole.index(b"PTQ1_0.2") + len("PTQ1_0.2") + 4
    odd = whole[:at] + (129).to_bytes(8, "little") + whole[at + 8 :]
    assert [node["kind"] for node in nodes(f"data[{index}]", odd)] == ["record", "bytes"]
