"""This module runs a model from its tokens to one value, also with each known mistake in place: what explains that value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.golden.candidates.log_probabilities import shifted
from i2s_spec.golden.diagnosis.diagnose import Diagnoser
from i2s_spec.golden.replay.result import Diagnosis
from i2s_spec.golden.replay.tolerance import FORCED
from i2s_spec.model.graph.graph import TOKENS
from i2s_spec.model.graph.taps import base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

    Array = NDArray[Any]

#: Tokens that are enough to tell mistakes apart.
FEW_TOKENS: Final = 16


def by_running(
    diagnoser: Diagnoser, tokens: NDArray[np.int64], name: str, got: Array, want: Array, cut: Callable[[Array], Array],
    few: bool, free: bool = False,
) -> list[Diagnosis]:  # fmt: skip
    """What explains a value, by running the model from its tokens with each mistake in place.

    :param cut: takes from a whole value what is compared
    :param few: whether all rows are there, so that the first tokens may do
    :param free: whether the value's rows are known but for a constant
    """
    settings = diagnoser.model.settings
    few = few and len(tokens) > FEW_TOKENS and settings.causal and got.shape[:1] == (len(tokens),)
    few = few and base(name) not in ("kq", "kq_soft_max", "kq_soft_max_ext")
    used = tokens[:FEW_TOKENS] if few else tokens
    if few:
        got, want = got[:FEW_TOKENS], want[:FEW_TOKENS]

    def again(changed: Model) -> Array | None:
        if few and any(node.op == "soft_max" and not node.settings["causal"] for node in changed.graph):
            value = value_of(changed, tokens, name)  # what comes later makes a difference there
            return value if value is None else value[:FEW_TOKENS]
        value = value_of(changed, used, name)
        return value if value is None or few else cut(value)

    def level(changed: Model) -> Array | None:
        value = again(changed)
        return value if value is None or not free or value.shape != got.shape else shifted(value, got)

    return diagnoser.of_run(level, got, want, limit_of(want), len(tokens))


def limit_of(want: Array) -> float:
    """How far a value of a whole run may be off before it counts as wrong, at the least."""
    finite = np.abs(want[np.isfinite(want)])
    return FORCED.f32 * float(finite.max()) if finite.size else 0.0


def value_of(model: Model, tokens: NDArray[np.int64], name: str) -> Array | None:
    """What a model gives for a tap; nothing after it is computed."""
    if name == "result_output" and name in model.graph.by_name:
        return model.forward(tokens).logits
    if name == "embedding" and name in model.graph.by_name:
        return model.forward(tokens).embedding
    if name not in model.tap_names():
        return None
    prefix = name.rpartition(".")[0]
    node = next(
        node for node in model.graph if node.name == name or (prefix and node.weights[:1] == (f"{prefix}.weight",))
    )
    _, found = model.run_part(model.graph.until(node), {TOKENS: tokens}, (name,))
    value: Array | None = found.get(name)
    return value[0] if isinstance(value, list) else value
