"""Wrong copies of a trained model that pass checks of metadata and structure: something else detects each of them.

Each row says how the copy is made and what detects it: a code of lint, or the hypothesis of --likelihood. Mistakes that
only a reference can show are listed too; here they must give no finding, since any would be a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from examples import share
from wrong_files import (
    PROJECTIONS,
    Copy,
    column_by_column,
    halves_to_neighbors,
    spread_columns,
    spread_rows,
)

from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.engine import lint
from i2s_spec.model.text.likelihood import likelihood, verdict

TOKENS, TYPES, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
BOS, EOS, TEMPLATE = "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.chat_template"


class Row(NamedTuple):
    """A mistake, how a copy gets it, and a code of lint or the hypothesis of a text that finds it."""

    mistake: str
    make: Callable[[], Copy]
    code: str = ""
    hypothesis: str = ""

    def __str__(self) -> str:
        return self.mistake


def off_by_a_block(model: Copy) -> Copy:
    """The payload of one tensor begins 32 bytes late."""
    name = "blk.1.ffn_gate.weight"
    shape, kind, data = model.tensors[name]
    model.tensors[name] = shape, kind, data[-64:-32] + data[:-64] + data[-32:]
    return model


def off_by_a_byte(trits: np.ndarray) -> np.ndarray:
    """Elements as they are read where the payload begins one byte late, but for the order within blocks."""
    return np.roll(trits.reshape(-1), 4).reshape(trits.shape)


def words_swapped(model: Copy) -> Copy:
    for role in PROJECTIONS:
        for name in model.names(role):
            shape, kind, data = model.tensors[name]
            swapped = np.frombuffer(data[:-32], "<u4").byteswap().tobytes()
            model.tensors[name] = shape, kind, swapped + data[-32:]
    return model


def for_neighbors(model: Copy) -> Copy:
    return model.trits("attn_q", lambda rows: halves_to_neighbors(rows, 4)).trits(
        "attn_k", lambda rows: halves_to_neighbors(rows, 2)
    )


def other_heads(model: Copy) -> Copy:
    """Half as many heads of twice the width, in metadata that agree with themselves."""
    keys = {"attention.head_count": 2, "attention.head_count_kv": 1, "rope.dimension_count": 128}
    for key, value in keys.items():
        model.set(f"$.{key}", value)
    return model


def transposed(model: Copy, *roles: str) -> Copy:
    for role in roles:
        model.trits(role, column_by_column)
    return model


def every_other(items: list[object]) -> None:
    del items[::2]


def blanks(items: list[str]) -> None:
    items[:] = [item.replace("\u0120", " ") for item in items]


TWO_TURNS = "{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|eot_id|>{% endfor %}"

ROWS = (
    # code maps: visible in the weights themselves
    Row("another layout, all tensors", lambda: Copy().packed("interleave-64"), "I213"),
    Row("rows-1x4, all tensors", lambda: Copy().packed("rows-1x4"), "I213"),
    Row("another layout, one tensor", lambda: Copy().packed("sequential-msb", "ffn_up", layers=slice(1, 2)), "I214"),
    Row("another code map", lambda: Copy().packed("interleave-128/zero-first"), "I216"),
    Row("32-bit words swapped", lambda: words_swapped(Copy()), "I213"),
    Row("a block off by one", lambda: off_by_a_block(Copy()), "I214"),
    Row("one matrix transposed", lambda: Copy().trits("attn_k", column_by_column, slice(1, 2)), "I217"),
    Row("a payload off by one byte", lambda: Copy().trits("ffn_down", off_by_a_byte, slice(2, 3)), "I217"),
    Row("ffn_down of two layers exchanged", lambda: Copy().exchange("blk.0.ffn_down", "blk.2.ffn_down"), "I217"),
    Row("rows for the other rotation", lambda: for_neighbors(Copy()), "I215", "other RoPE order"),
    # order of elements, heads and tensors
    Row("heads in another grouping", lambda: Copy().trits("attn_q", spread_rows).trits("attn_output", spread_columns),
        hypothesis="heads spread"),
    Row("other heads", lambda: other_heads(Copy()), hypothesis="twice as many heads"),
    Row("k and v exchanged", lambda: Copy().exchange("attn_k.", "attn_v."), hypothesis="attn_k and attn_v exchanged"),
    Row("q and output exchanged", lambda: Copy().exchange("attn_q.", "attn_output."),
        hypothesis="attn_q and attn_output exchanged"),
    Row("gate and up exchanged", lambda: Copy().exchange("ffn_gate", "ffn_up"),
        hypothesis="ffn_gate and ffn_up exchanged"),
    Row("square matrices transposed", lambda: transposed(Copy(), "attn_q", "attn_output"),
        hypothesis="square matrices transposed"),
    Row("ffn_down transposed", lambda: transposed(Copy(), "ffn_down"), hypothesis="ffn_down transposed"),
    Row("layers exchanged", lambda: Copy().exchange("blk.1.", "blk.2."), hypothesis="layers 1 and 2 exchanged"),
    # signs, scales, floats
    Row("signs of all weights", lambda: Copy().each(lambda trits: -trits), hypothesis="signs turned"),
    Row("signs of ffn_up", lambda: Copy().trits("ffn_up", lambda trits: -trits), hypothesis="signs of ffn_up turned"),
    Row("embedding rows shifted", lambda: Copy().embedding(lambda rows: np.roll(rows, 1, axis=0)),
        hypothesis="embedding shifted by +1"),
    Row("scales over 127", lambda: Copy().scales(lambda scale: scale / 127), hypothesis="scale times 127"),
    Row("scales squared", lambda: Copy().scales(lambda scale: scale * scale), hypothesis="scale rooted"),
    Row("scales times 127", lambda: Copy().scales(lambda scale: scale * 127), hypothesis="scale over 127"),
    Row("scales reciprocal", lambda: Copy().scales(lambda scale: 1 / scale), hypothesis="scale reciprocal"),
    Row("gains minus 1", lambda: Copy().floats(lambda gains: gains - 1), "M122", "gains plus 1"),
    Row("gains all 1", lambda: Copy().floats(np.ones_like), "M121"),
    # metadata
    Row("RoPE base of loaders", lambda: Copy().set("$.rope.freq_base", 10000.0), "M022", "RoPE base 500,000"),
    Row("no RoPE base", lambda: Copy().without("$.rope.freq_base"), "M010", "RoPE base 500,000"),
    Row("epsilon 1e-3", lambda: Copy().set("$.attention.layer_norm_rms_epsilon", 1e-3), "M011"),
    Row("EOS an ordinary token", lambda: Copy().set(EOS, 300), "T018"),
    Row("BOS and EOS exchanged", lambda: Copy().set(EOS, 509).set(BOS, 510), "T019"),
    Row("special tokens of type normal", lambda: Copy().set(TYPES, [1] * 512), "T018"),
    Row("a template of another vocabulary", lambda: Copy().set(TEMPLATE, TWO_TURNS, "str"), "T020"),
    Row("merges reversed", lambda: Copy().items(MERGES, lambda items: items.reverse()), "T021"),
    Row("every other merge missing", lambda: Copy().items(MERGES, every_other), "T022"),
    Row("the end of the merges missing", lambda: Copy().items(MERGES, lambda items: items.__delitem__(slice(120, None))),
        "T022"),
    Row("blanks in gpt2 tokens", lambda: Copy().items(TOKENS, blanks), "T023"),
)  # fmt: skip


def noise(trits: np.ndarray) -> np.ndarray:
    """One weight in a hundred is another one."""
    random = np.random.default_rng(1)
    return np.where(random.random(trits.shape) < 0.01, random.choice([-1, 0, 1], size=trits.shape), trits).astype(
        np.int8
    )


def scale_of_another(model: Copy) -> Copy:
    """blk.1.ffn_up with the scale of blk.2.ffn_up, which the next norm hides."""
    shape, kind, data = model.tensors["blk.1.ffn_up.weight"]
    other = model.tensors["blk.2.ffn_up.weight"][2]
    model.tensors["blk.1.ffn_up.weight"] = shape, kind, data[:-32] + other[-32:]
    return model


#: Faults that only a reference or a checksum shows.
ONLY_A_REFERENCE = (
    Row("the scale of another tensor", lambda: scale_of_another(Copy())),
    Row("gains exchanged between layers", lambda: Copy().exchange("blk.2.attn_norm", "blk.3.attn_norm")),
    Row("one weight in a hundred changed", lambda: Copy().each(noise)),
)


@pytest.mark.parametrize("row", share(row for row in ROWS if row.code), ids=str)
def test_lint_detects_the_wrong_copy(row: Row) -> None:
    assert row.code in {finding.code for finding in lint(row.make().written()).findings}


@pytest.mark.parametrize("row", share((row for row in ROWS if row.hypothesis), every=8), ids=str)
def test_likelihood_of_a_text_detects_the_wrong_copy(row: Row) -> None:
    with open_file(row.make().written()) as file:
        found = likelihood(file, threads=1)
    assert found.standings[0].name == row.hypothesis
    assert verdict(found) == "wrong"


@pytest.mark.parametrize("row", share(ONLY_A_REFERENCE), ids=str)
def test_only_a_reference_detects_the_wrong_copy(row: Row) -> None:
    data = row.make().written()
    assert not lint(data).findings
    with open_file(data) as file:
        assert verdict(likelihood(file, threads=1)) == "right"


def test_a_partly_right_hypothesis_still_reports_a_mistake() -> None:
    """An embedding times 10 is no hypothesis; the text says that something is wrong with magnitudes."""
    with open_file(Copy().embedding(lambda rows: rows * 10).written()) as file:
        found = likelihood(file, threads=1)
    assert verdict(found) == "wrong"
    assert found.standings[0].name.startswith("scale")


def test_every_row_is_found_by_something() -> None:
    assert all(row.code or row.hypothesis for row in ROWS)
    assert len({row.mistake for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", ["stories", "llama"])
def test_the_right_models_get_none_of_these_codes(name: str) -> None:
    codes = {row.code for row in ROWS if row.code}
    assert not codes & {finding.code for finding in lint(Copy(name).written()).findings}


@pytest.mark.parametrize("dialect", ["sequential-lsb", "sequential-lsb/zero-first", "sequential-msb/twos-complement"])
def test_a_dialect_is_named_with_its_code_map(dialect: str) -> None:
    """A conversion with the layout alone would invert signs."""
    found = next(finding for finding in lint(Copy().packed(dialect).written()).findings if finding.code == "I213")
    assert str(found.got) == dialect
