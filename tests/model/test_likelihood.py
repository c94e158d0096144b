"""The loss on a text reveals what is wrong with a trained model, and nothing about a random one."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from examples import share
from wrong_files import Copy, column_by_column, halves_to_neighbors, neighbors_to_halves, spread_columns, spread_rows

from i2s_spec.convert.new import new
from i2s_spec.convert.trained import write_trained
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.text.likelihood import NATS, SIGMAS, Likelihood, as_dict, likelihood, lines, sentence, verdict
from i2s_spec.schema.dialect import parse

SQUARE = ("attn_q", "attn_output")


def asked(data: bytes, dialect: str = "canonical") -> Likelihood:
    with open_file(data) as file:
        return likelihood(file, dialect=parse(dialect), threads=1)


def rotated_otherwise(name: str, heads: int, key_heads: int) -> Copy:
    change = halves_to_neighbors if name == "stories" else neighbors_to_halves
    return (
        Copy(name)
        .trits("attn_q", lambda rows: change(rows, heads))
        .trits("attn_k", lambda rows: change(rows, key_heads))
    )


def squares(model: Copy) -> Copy:
    for role in SQUARE:
        model.trits(role, column_by_column)
    return model


#: Mistakes by the name of the hypothesis that must win, and functions that make such a copy.
MISTAKES: dict[str, Callable[[str], Copy]] = {
    "signs turned": lambda name: Copy(name).each(lambda trits: -trits),
    "signs of attn_q turned": lambda name: Copy(name).trits("attn_k", lambda trits: -trits),
    "signs of attn_v turned": lambda name: Copy(name).trits("attn_v", lambda trits: -trits),
    "signs of ffn_up turned": lambda name: Copy(name).trits("ffn_down", lambda trits: -trits),
    "code map zero-first": lambda name: Copy(name).packed("interleave-128/zero-first"),
    "square matrices transposed": lambda name: squares(Copy(name)),
    "ffn_down transposed": lambda name: Copy(name).trits("ffn_down", column_by_column),
    "other RoPE order": lambda name: rotated_otherwise(name, 4, 2),
    "heads spread": lambda name: Copy(name).trits("attn_q", spread_rows).trits("attn_output", spread_columns),
    "ffn_gate and ffn_up exchanged": lambda name: Copy(name).exchange("ffn_gate", "ffn_up"),
    "attn_k and attn_v exchanged": lambda name: Copy(name).exchange("attn_k.", "attn_v."),
    "attn_q and attn_output exchanged": lambda name: Copy(name).exchange("attn_q.", "attn_output."),
    "layers 0 and 1 exchanged": lambda name: Copy(name).exchange("blk.0.", "blk.1."),
    "embedding shifted by +1": lambda name: Copy(name).embedding(lambda rows: np.roll(rows, 1, axis=0)),
    "embedding shifted by -1": lambda name: Copy(name).embedding(lambda rows: np.roll(rows, -1, axis=0)),
    "gains plus 1": lambda name: Copy(name).floats(lambda gains: gains - 1),
    "RoPE base 500,000": lambda name: Copy(name).set("$.rope.freq_base", 10000.0),
    "twice as many heads": lambda name: Copy(name)
    .set("$.attention.head_count", 2).set("$.attention.head_count_kv", 1).set(
        "$.rope.dimension_count", 128 if name == "stories" else 64),
}  # fmt: skip


def dropped(found: Likelihood) -> set[str]:
    return {each.name for each in found.standings if each.lost}


@pytest.mark.parametrize("mistake", share(MISTAKES))
def test_a_planted_mistake_is_named(mistake: str) -> None:
    found = asked(MISTAKES[mistake]("stories").written())
    assert found.standings[0].name == mistake
    assert verdict(found) == "wrong"
    assert mistake in sentence(found)
    wrong = next(each for each in found.standings if each.name == "as it is")
    assert wrong.nats >= NATS
    assert wrong.sigmas >= SIGMAS
    assert {each.name for each in found.remaining} <= {mistake, "activation gelu"}


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_named_in_a_llama(mistake: str) -> None:
    found = asked(MISTAKES[mistake]("llama").written())
    assert found.standings[0].name == mistake
    assert verdict(found) == "wrong"


@pytest.mark.parametrize("name", share(["stories", "llama"]))
def test_a_correct_file_is_recognized(name: str) -> None:
    found = asked(Copy(name).written())
    assert verdict(found) == "right"
    assert found.standings[0].name == "as it is"
    assert {each.name for each in found.remaining} <= {"as it is", "activation gelu"}
    assert found.standings[0].loss < found.chance / 4


def test_an_activation_that_differs_is_named() -> None:
    found = asked(Copy().set("$.hidden_activation", "silu", "str").written())
    assert found.standings[0].name == "activation relu2"
    assert verdict(found) == "wrong"


def test_scales() -> None:
    """The reciprocal can be decided in this model: its head is tied, and the residual sum is not normed."""
    found = asked(Copy().scales(lambda scale: 1 / scale).written())
    assert found.answer == "scale reciprocal" or found.standings[0].name == "scale reciprocal"
    assert found.wrong


def test_the_file_is_read_in_the_given_dialect() -> None:
    data = Copy().packed("sequential-lsb").written()
    assert verdict(asked(data, "sequential-lsb")) == "right"
    found = asked(data)
    assert verdict(found) == "undecided"
    assert not found.predicts


@pytest.mark.parametrize("architecture", share(["bitnet-b1.58", "llama", "bitnet"]))
@pytest.mark.parametrize("seed", share([0, 1]))
@pytest.mark.requirement("R7.8-1")
def test_everything_is_undecided_for_random_weights(architecture: str, seed: int) -> None:
    out = io.BytesIO()
    new(out, architecture, seed=seed)
    found = asked(out.getvalue())
    assert not found.why_not
    assert not found.predicts
    assert found.answer is None
    assert not found.wrong
    assert verdict(found) == "undecided"


@pytest.mark.thorough
def test_everything_is_undecided_for_shuffled_weights() -> None:
    """The trained embedding and gains, with random weights."""
    random = np.random.default_rng(3)
    found = asked(Copy().each(lambda trits: random.permutation(trits.reshape(-1)).reshape(trits.shape)).written())
    assert verdict(found) == "undecided"


def test_without_a_tokenizer() -> None:
    model = Copy()
    for key in [key for key in model.keys if key.startswith("tokenizer.")]:
        del model.keys[key]
    found = asked(model.written())
    assert found.why_not == "the file has no tokenizer, so no text can be tokenized"
    assert as_dict(found)["verdict"] == "undecided"
    assert found.why_not in sentence(found)


def test_a_short_text_is_refused() -> None:
    with open_file(Copy().written()) as file:
        found = likelihood(file, "Once.")
    assert "at least 32" in found.why_not


def test_threads_change_nothing_that_is_decided() -> None:
    data = Copy("llama").written()
    with open_file(data) as file:
        many = likelihood(file, threads=2)
    one = asked(data)
    assert [each.name for each in many.remaining] == [each.name for each in one.remaining]
    assert dropped(many) == dropped(one)


@pytest.mark.parametrize("type", share(["TQ2_0", "Q2_0", "PTQ1_0", "F16"]))
def test_only_what_applies_to_a_type_is_tried(type: str) -> None:
    """Floats have no codes: hypotheses about codes would change nothing, and are not among the remaining answers."""
    file = io.BytesIO()
    write_trained(file, "bitnet-b1.58", to=type)
    found = asked(file.getvalue())
    names = {each.name for each in found.standings}
    about_codes = {"signs turned", "code map zero-first", "scale 1", "heads spread", "attn_q transposed"}
    assert verdict(found) == "right"
    assert {each.name for each in found.remaining} <= {"as it is", "activation gelu"}
    assert "ffn_gate and ffn_up exchanged" in names
    assert found.dialect == ""
    assert names & about_codes == (set() if type == "F16" else about_codes)
    text = "".join(piece.text for line in lines(found) for piece in line)
    assert "read as" not in text
    left_out = {"F16": "all matrices", "TQ2_0": "ffn_down"}.get(type)  # rows of ffn_down are not whole blocks of 256
    assert ("not tried: codes, signs" in text) == (left_out is not None)
    assert left_out is None or f"of {left_out}:" in as_dict(found)["not_tried"]
