"""The layout of the trained models in the package is identified, in whatever dialect they are written."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from examples import share
from planted import layouts, opened
from wrong_files import PROJECTIONS, Copy

from i2s_spec.convert.trained import write_trained
from i2s_spec.inspect.identify import identify
from i2s_spec.layout_inference.counts import likely_code_map
from i2s_spec.layout_inference.evidence import layout_evidence
from i2s_spec.linter.engine import lint
from i2s_spec.schema.dialect import CODE_MAPS


def trained(architecture: str, dialect: str) -> bytes:
    out = io.BytesIO()
    write_trained(out, architecture, dialect=dialect)
    return out.getvalue()


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("code_map", CODE_MAPS)
def test_each_dialect_is_decided(layout: str, code_map: str) -> None:
    """The `llama`, which has no sub-norms."""
    with opened(trained("llama", f"{layout}/{code_map}")) as file:
        found = layout_evidence(file, CODE_MAPS[code_map])
    assert found is not None
    assert found.decided is not None
    assert found.decided.name == layout
    assert not found.otherwise(layout)


@pytest.mark.parametrize("layout", layouts())
def test_each_layout_is_decided_with_sub_norms(layout: str) -> None:
    """The `bitnet-b1.58`: each of its tensors is decided, and the programs say so."""
    data = trained("bitnet-b1.58", layout)
    with opened(data) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    assert {tensor.decision.name for tensor in found.tensors} == {layout}
    answer = identify(data, payloads="full").question("layout").answer
    assert answer is not None
    assert answer.name == layout
    codes = {finding.code for finding in lint(data).findings}
    assert ("I213" in codes) == (layout != "interleave-128")


@pytest.mark.parametrize("code_map", CODE_MAPS)
def test_the_code_map_is_told_by_balance(code_map: str) -> None:
    data = trained("bitnet-b1.58", f"interleave-128/{code_map}")
    assert likely_code_map(identify(data, payloads="full").counts).name == code_map
    assert any(finding.code == "I216" for finding in lint(data).findings) == (code_map == "zero-first")
    assert any(finding.code == "I202" for finding in lint(data).findings) == (CODE_MAPS[code_map].unused != 3)


@pytest.mark.parametrize("code_map", [pytest.param(name, marks=pytest.mark.thorough) for name in CODE_MAPS])
@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("sub_norms", [True, False])
def test_each_dialect_with_and_without_sub_norms(layout: str, code_map: str, sub_norms: bool) -> None:
    model = Copy().packed(f"{layout}/{code_map}")
    if not sub_norms:
        model.tensors = {name: tensor for name, tensor in model.tensors.items() if "sub_norm" not in name}
    with opened(model.written()) as file:
        found = layout_evidence(file, CODE_MAPS[code_map])
    assert found is not None
    assert found.decided is not None
    assert found.decided.name == layout


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", ["interleave-128", "interleave-64", "rows-1x4"])
def test_damage_to_a_tenth_does_not_change_the_answer(layout: str, seed: int) -> None:
    """Three of 28 matrices are random, or all zeros."""
    random = np.random.default_rng(seed)
    model = Copy()
    for number, role in enumerate(random.choice(PROJECTIONS, 3)):
        layer = int(random.integers(4))
        model.trits(
            role,
            (lambda trits: random.choice(np.array([-1, 0, 1], np.int8), size=trits.shape)) if number else np.zeros_like,
            slice(layer, layer + 1),
        )
    with opened(model.packed(layout).written()) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    assert found.decided is not None
    assert found.decided.name == layout


@pytest.mark.parametrize(
    ("role", "other"), share(product(PROJECTIONS, ["interleave-64", "sequential-lsb", "rows-1x4"]), every=4)
)
def test_one_foreign_tensor_is_named(other: str, role: str) -> None:
    data = Copy().packed(other, role, layers=slice(2, 3)).written()
    with opened(data) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    assert found.mixed
    named = {one.matrix.name: one.decision.name for one in found.otherwise("interleave-128")}
    assert named == {f"blk.2.{role}.weight": other}
    assert "I214" in {finding.code for finding in lint(data).findings}


def column_by_column(trits: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(trits.T).reshape(trits.shape)


def shuffled(trits: np.ndarray) -> np.ndarray:
    return np.random.default_rng(3).permutation(trits.reshape(-1)).reshape(trits.shape)


@pytest.mark.requirement("R7.7-4")
@pytest.mark.parametrize(("role", "damage"), share(product(PROJECTIONS, [column_by_column, shuffled]), every=4))
@pytest.mark.parametrize("layout", ["interleave-128", "interleave-64"])
def test_one_tensor_that_agrees_with_nothing_is_named(
    layout: str, role: str, damage: Callable[[np.ndarray], np.ndarray]
) -> None:
    with opened(Copy().trits(role, damage, slice(1, 2)).packed(layout).written()) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    assert found.usual == layout
    assert [one.matrix.name for one in found.strangers()] == [f"blk.1.{role}.weight"]


@pytest.mark.requirement("R7.7-4")
@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("name", ["stories", "llama"])
def test_no_tensor_of_a_sound_model_agrees_with_nothing(name: str, layout: str) -> None:
    with opened(Copy(name).packed(layout).written()) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    assert found.strangers() == []


@pytest.mark.requirement("R7.7-4")
def test_tensors_beside_weak_ones_are_not_named() -> None:
    """If half of a role's matrices agree with nothing, or one agrees a little, the others may have learned less too."""

    def named(model: Copy) -> list[str]:
        with opened(model.written()) as file:
            found = layout_evidence(file, CODE_MAPS["offset-1"])
        assert found is not None
        return [one.matrix.name for one in found.strangers()]

    def partly(trits: np.ndarray) -> np.ndarray:
        """Most rows are shuffled."""
        return np.concatenate([shuffled(trits[:-24]), trits[-24:]])

    two, three = Copy().trits("attn_q", shuffled, slice(2)), Copy().trits("attn_q", shuffled, slice(3))
    assert named(two) == ["blk.0.attn_q.weight", "blk.1.attn_q.weight"]
    assert named(three) == []
    assert named(Copy().trits("attn_q", shuffled, slice(1)).trits("attn_q", partly, slice(1, 2))) == []
