"""The drawings of the chapters agree with the schema, the graphs, the codec and the text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from i2s_site import checkout, examples
from i2s_site.annexes import registry_page
from i2s_site.drawings import DRAWINGS, drawn
from i2s_site.figures import BYTES, COLS, ROWS, layout_order
from i2s_site.flows import Arrow, Box, flow, graph_flow
from i2s_site.requirements import requirements
from i2s_spec.codec import blocks
from i2s_spec.codec.quantize import quantize
from i2s_spec.codec.reference import unpack
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.container import container, tensor_info
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.i2s import SHIFTS
from i2s_spec.schema.type_registry import ADVISORIES
from i2s_spec.schema.types import TAIL_BYTES

CELL = re.compile(r"byte (\d+), (?:bits \d:|digit )(\d): code (\d), element (\d+), ([−+]?\d)")


def words(svg: str, style: str = "") -> list[str]:
    found = ET.fromstring(svg).iter("text")
    return [each.text or "" for each in found if not style or each.get("class") == style]


def test_every_drawing_is_on_a_page_and_every_chapter_has_a_picture() -> None:
    fences = list(examples.fences())
    used = {fence.body.split()[0] for fence in fences if fence.kind == "i2s-drawing"}
    used |= set(re.findall(r"^```i2s-drawing\n(\S+)", registry_page(), re.MULTILINE))
    assert used == set(DRAWINGS)
    pictures = {"i2s-drawing", "i2s-map", "i2s-byte", "i2s-block", "i2s-layouts"}
    drawn_on = {fence.page.name for fence in fences if fence.kind in pictures}
    chapters = {page.name for page in checkout.chapters().glob("[0-9][0-9]-*.md")}
    assert len(chapters) == 12
    assert chapters <= drawn_on


@pytest.mark.parametrize(
    "name", [name for name in DRAWINGS if not DRAWINGS[name].takes] + [f"block-type {name}" for name in GROUP_LAYOUTS]
)
def test_a_drawing_is_sound_and_says_what_it_shows(name: str) -> None:
    svg, caption = drawn(name)
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert caption
    assert len(root.findtext("desc") or "") > 60
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    for each in root.iter("text"):
        assert 0 <= float(each.get("x", "-1")) <= width
        assert 0 < float(each.get("y", "-1")) <= height


@pytest.mark.parametrize(
    "body", ["nothing", "graph", "graph llama", "file more", "graph nothing attention", "graph llama x", "block-type"]
)
def test_unknown_drawings_are_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"there is no|takes"):
        drawn(body)


def test_the_file_has_every_part_and_every_field() -> None:
    said = words(drawn("file")[0])
    for record in (container("little"), tensor_info("little")):
        assert [name for name in said if name in {field.name for field in record.fields}][: len(record.fields)]
        assert {field.name for field in record.fields} <= set(said)


@pytest.mark.parametrize("name", GROUP_LAYOUTS)
def test_blocks_show_the_codes_of_their_bytes(name: str) -> None:
    """Decoded from the hex of the picture by the declaration, every element is in its cell with its weight."""
    layout = GROUP_LAYOUTS[name]
    svg, _ = drawn(f"block-type {name}")
    data = bytes.fromhex("".join(words(svg, "hex")))
    assert len(data) == layout.type.nbytes((layout.block,))
    values, scales = blocks.unpack(data, (1, layout.block), name)
    assert scales.tolist() == [0.75]
    assert len(set(values[0].tolist())) == 3
    titles = [each.text or "" for each in ET.fromstring(svg).iter("title")]
    said = [found.groups() for each in titles if (found := CELL.fullmatch(each))]
    shown = zip(words(svg, "digit"), words(svg, "number"), said, strict=True)
    elements = set()
    for trit, number, (byte, place, code, element, weight) in shown:
        k = int(element)
        elements.add(k)
        assert layout.find(k) == (int(byte), int(place))
        assert (trit, number, int(code)) == (weight, element, int(values[0, k]) + 1)
        assert int(trit.replace("−", "-")) == values[0, k]
    assert elements == set(range(layout.block))
    assert sum("of the scale" in each for each in titles) == layout.scale.nbytes
    assert titles.count("means nothing") == (TAIL_BYTES if layout.scale.apart else 0)


def test_layouts_show_the_element_of_every_cell() -> None:
    cells = iter(words(layout_order(), "kind"))
    for layout in LAYOUTS.values():
        for shift in SHIFTS:
            for byte in range(BYTES):
                k = int(next(cells))
                assert (layout.byte_of(k, ROWS, COLS), layout.shift_of(k, ROWS, COLS)) == (byte, shift)
    assert next(cells, None) is None


@pytest.mark.parametrize("architecture", ["bitnet", "bitnet-b1.58", "llama", "qwen3", "gemma3"])
def test_graphs_of_all_architectures_can_be_drawn(architecture: str) -> None:
    both = graph_flow(architecture, "attention") + graph_flow(architecture, "feed-forward")
    for name in ("attn_norm", "Qcur", "kqv_out", "ffn_norm", "l_out"):
        assert f">{name}<" in both


def test_the_graph_has_the_residual_and_both_norms() -> None:
    svg = graph_flow("bitnet-b1.58", "attention")
    assert svg.count("arrow residual") == 1
    assert "ffn_inp from inp_embd and attn_o_out" in svg
    assert words(svg, "more").count("RMS norm") == 2
    assert "squared" in words(graph_flow("bitnet-b1.58", "feed-forward"))
    assert "SiLU" in words(graph_flow("bitnet", "feed-forward"))


def test_keys_of_shapes() -> None:
    svg = drawn("keys")[0]
    assert "blk.{i}.attn_k.weight: embedding_length, attention.head_count_kv, rope.dimension_count;" in svg
    assert "token_embd.weight: embedding_length, vocab_size;" in svg
    assert svg.count("<circle") == len(re.findall(r"has a shape that follows", svg)) > 20


def test_shapes_are_to_scale() -> None:
    boxes = {}
    for path in ET.fromstring(drawn("shapes")[0]).iter("path"):
        name = (path.findtext("title") or "").partition(":")[0]
        met = re.fullmatch(r"M[\d. ]+h([\d.]+)v([\d.]+)h.*", path.get("d", ""))
        assert met
        boxes[name] = float(met[1]), float(met[2])
    assert boxes["ffn_gate"][1] / boxes["ffn_gate"][0] == pytest.approx(6912 / 2560, rel=0.01)
    assert boxes["ffn_down"] == pytest.approx(boxes["ffn_gate"][::-1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", ["absmax", "hf-first", "embedding-mean"])
def test_shares_of_trits_are_those_of_each_rule(rule: str) -> None:
    weights = np.concatenate([[0.75], np.linspace(-1, 1, 1024)[1:-1], [1.0]]).astype(np.float32)
    trits, scale = unpack(quantize(weights.reshape(1, -1), rule=rule), (1, 1024))
    svg = drawn("quantizers")[0]
    assert f"scale {scale:.3g}" in words(svg)
    share = float((trits[0][1:-1] == 1).mean())
    assert f"{rule}: +1 for {share:.0%} of the weights" in svg


def test_counts_are_those_of_the_text() -> None:
    must = sum("runtime" in each.binds and each.is_must for each in requirements())
    assert f"runtime: {must} MUST" in drawn("claims")[0]
    counts = [int(each) for each in words(drawn("attacked")[0], "kind")]
    assert sum(counts) == sum(bool(each.rules) for each in ADVISORIES)


def test_a_flow_has_its_boxes_and_arrows_inside() -> None:
    boxes = [Box("a", 0, 0, ("first", "<b>")), Box("b", 1, 0, ("second",)), Box("c", 0, 2, ("third",))]
    arrows = [Arrow("a", "b"), Arrow("a", "c"), Arrow("b", "c"), Arrow("a", "c", "residual", 80)]
    root = ET.fromstring(flow(boxes, arrows, "says", "more"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert [each.text for each in root.iter("text")] == ["first", "<b>", "second", "third"]
    ways = [path.attrib["d"] for path in root.iter("path") if path.attrib["class"].startswith("arrow")]
    assert len(ways) == len(arrows)
    assert sum(path.attrib["class"] == "head" for path in root.iter("path")) == len(arrows)
    for way in ways:
        numbers = [float(each) for each in re.findall(r"-?[\d.]+", way)]
        assert all(0 <= x <= width for x in numbers[::2])
        assert all(0 <= y <= height for y in numbers[1::2])
    assert ways[0].count("L") == 1, "straight where boxes stand side by side"
