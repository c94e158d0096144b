"""Which operations are replayed together, and by which limit they are compared: an operation's, a layer's, a model's."""

from __future__ import annotations

import io

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.golden.replay import Replayer
from i2s_spec.golden.tolerance import FORCED, UNFORCED
from i2s_spec.model.load import load_model

TOKENS = np.array([1, 17, 3, 44])


@pytest.mark.parametrize(
    ("known", "asked", "span"),
    [("l_out-1", "l_out-2", "layer"), ("l_out-0", "l_out-2", "model"), (None, "l_out-0", "layer"),
     (None, "l_out-1", "model")],
)  # fmt: skip
def test_values_after_two_layers_get_the_limits_of_a_model(known: str | None, asked: str, span: str) -> None:
    file = io.BytesIO()
    i2s.new(file, "llama", layers=3, heads=4, heads_kv=2)
    model = load_model(file.getvalue(), threads=1)
    taps = model.forward(TOKENS, taps=("l_out",)).taps
    replayer = Replayer(model, TOKENS, {} if known is None else {known: taps[known]})
    replay = replayer.replay(asked, taps[asked])
    assert replay is not None
    assert replay.span == span
    largest = float(np.abs(replay.value).max())
    assert replay.limit == (FORCED if span == "layer" else UNFORCED).f32 * largest
    assert np.array_equal(replay.value, taps[asked])


def test_an_operation_by_itself_is_judged_as_one() -> None:
    file = io.BytesIO()
    i2s.new(file, "llama", layers=1, heads=4, heads_kv=2)
    model = load_model(file.getvalue(), threads=1)
    found = model.forward(TOKENS, taps=model.tap_names()).taps
    replay = Replayer(model, TOKENS, found).replay("ffn_inp-0", found["ffn_inp-0"])
    assert replay is not None
    assert (replay.span, replay.reach) == ("op", ("ffn_inp-0",))
