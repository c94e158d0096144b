from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from i2s_spec.errors import FormatError
from i2s_spec.schema.architectures import Hyperparameters, architecture_of, hyperparameters

GOOD: dict[str, Any] = {
    "general.architecture": "bitnet-b1.58",
    "bitnet-b1.58.vocab_size": 128256,
    "bitnet-b1.58.context_length": 4096,
    "bitnet-b1.58.embedding_length": 2560,
    "bitnet-b1.58.block_count": 30,
    "bitnet-b1.58.feed_forward_length": 6912,
    "bitnet-b1.58.rope.dimension_count": 128,
    "bitnet-b1.58.attention.head_count": 20,
    "bitnet-b1.58.attention.head_count_kv": 5,
    "bitnet-b1.58.attention.layer_norm_rms_epsilon": 1e-5,
    "bitnet-b1.58.rope.freq_base": 500000.0,
}


def changed(**values: Any) -> dict[str, Any]:
    """The good metadata with other values; None takes a key away."""
    metadata = dict(GOOD)
    for name, value in values.items():
        key = next(key for key in (*GOOD, "bitnet-b1.58.expert_count") if key.endswith("." + name.replace("__", ".")))
        if value is None:
            del metadata[key]
        else:
            metadata[key] = value
    return metadata


def test_hyperparameters_of_2b4t() -> None:
    h = hyperparameters(GOOD)
    assert h == Hyperparameters(
        layers=30, embd=2560, ff=6912, heads=20, heads_kv=5, head_dim=128, value_dim=128, vocab=128256, context=4096,
        rope_base=500000.0, rope_dims=128, eps=1e-5,
    )  # fmt: skip
    assert (h.q_width, h.k_width, h.v_width, h.o_width, h.rope_pairs) == (2560, 640, 640, 2560, 64)
    assert h.at(29) is h


def test_defaults() -> None:
    h = hyperparameters(changed(head_count_kv=None, freq_base=None, dimension_count=None))
    assert (h.heads_kv, h.rope_base, h.rope_dims, h.experts) == (20, 10000.0, 128, 0)


def test_the_vocabulary_is_counted_where_no_key_says_it() -> None:
    metadata = changed(vocab_size=None) | {"tokenizer.ggml.tokens": ["a", "b", "c"]}
    assert hyperparameters(metadata).vocab == 3
    assert hyperparameters(metadata, tokens=7).vocab == 7
    assert hyperparameters(GOOD, tokens=7).vocab == 128256


def test_layers_with_numbers_of_their_own() -> None:
    metadata = changed(block_count=3, feed_forward_length=np.array([256, 512, 256], np.uint32), head_count_kv=[5, 5, 5])
    h = hyperparameters(metadata)
    assert (h.ff, h.heads_kv) == (256, 5)
    assert h.varying == (("ff", (256, 512, 256)),)
    assert [h.at(i).ff for i in range(3)] == [256, 512, 256]
    assert all(type(value) is int for value in h.varying[0][1])


def test_heads_that_do_not_fill_the_hidden_state() -> None:
    own = {"qwen3.attention.key_length": 128, "qwen3.attention.value_length": 64, "qwen3.rope.dimension_count": 64}
    metadata = {key.replace("bitnet-b1.58", "qwen3"): value for key, value in GOOD.items()}
    metadata |= own | {"general.architecture": "qwen3", "qwen3.attention.head_count": 15}
    h = hyperparameters(metadata)
    assert (h.q_width, h.k_width, h.v_width, h.o_width) == (15 * 128, 5 * 128, 5 * 64, 15 * 64)
    del metadata["qwen3.attention.key_length"]
    with pytest.raises(FormatError, match="15 query heads do not divide the 2,560 columns"):
        hyperparameters(metadata)


@pytest.mark.parametrize(
    "name",
    [
        "context_length", "embedding_length", "block_count", "feed_forward_length", "head_count",
        "layer_norm_rms_epsilon",
    ],
)  # fmt: skip
def test_missing_keys(name: str) -> None:
    with pytest.raises(FormatError, match=rf"^M002 key-missing .*the key bitnet-b1.58\.[a-z_.]*{name} is missing$"):
        hyperparameters(changed(**{name: None}))


@pytest.mark.parametrize(
    ("values", "code", "said"),
    [
        ({"architecture": "bitnet-b1_58"}, "M001", "'bitnet-b1_58'; those that are declared here are bitnet-b1.58"),
        ({"architecture": "\x1b[2J"}, "M001", r"'\x1b[2J'"),
        ({"architecture": None}, "M002", "general.architecture is missing"),
        ({"architecture": 7}, "M003", "general.architecture holds 7; text is needed"),
        ({"block_count": 0}, "M004", "block_count is 0; at least 1 is needed"),
        ({"block_count": 513}, "M004", "block_count is 513; at most 512 is needed"),
        ({"block_count": 4294967295}, "M004", "at most 512"),
        ({"block_count": True}, "M003", "holds a truth value; a whole number is needed"),
        ({"block_count": "30"}, "M003", "holds text; a whole number is needed"),
        ({"block_count": [30]}, "M003", "holds an array; a whole number is needed"),
        ({"embedding_length": 2560.0}, "M003", "holds 2560.0; a whole number is needed"),
        ({"head_count": 0}, "M004", "head_count is 0; at least 1 is needed"),
        ({"head_count": 24}, "M007", "24 query heads cannot share 5 key heads evenly"),
        ({"head_count": 15}, "M006", "15 query heads do not divide the 2,560 columns"),
        ({"head_count_kv": 3}, "M007", "20 query heads cannot share 3 key heads evenly"),
        ({"dimension_count": 64}, "M008", "dimension_count is 64; heads are 128 wide"),
        ({"feed_forward_length": [6912] * 29}, "M005", "an array of 29; the model has 30 layers"),
        ({"feed_forward_length": [6912] * 31}, "M005", "an array of 31; the model has 30 layers"),
        ({"feed_forward_length": [0] * 30}, "M004", "an array that holds 0; whole numbers of at least 1"),
        ({"feed_forward_length": [1.5] * 30}, "M004", "an array that holds 1.5"),
        ({"feed_forward_length": [True] * 30}, "M004", "an array that holds a truth value"),
        ({"feed_forward_length": "6912"}, "M003", "holds text"),
        ({"feed_forward_length": 1.0}, "M003", "holds 1.0"),
        ({"feed_forward_length": False}, "M003", "holds a truth value"),
        ({"freq_base": math.nan}, "M004", "freq_base is nan; a finite number above 0 is needed"),
        ({"freq_base": math.inf}, "M004", "freq_base is inf"),
        ({"layer_norm_rms_epsilon": -1e-5}, "M004", "is -1e-05; a finite number above 0"),
        ({"layer_norm_rms_epsilon": 0.0}, "M004", "is 0.0; a finite number"),
        ({"expert_count": -1}, "M004", "expert_count is -1; at least 0"),
    ],
)
def test_impossible_metadata(values: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(FormatError) as error:
        hyperparameters(changed(**values))
    assert error.value.code == code
    assert said in str(error.value)
    assert str(error.value).isprintable()


def test_the_architecture() -> None:
    assert architecture_of(GOOD).name == "bitnet-b1.58"
