"""Repairs of metadata: values, their types, and the architecture's name with its keys."""

from __future__ import annotations

import io

import pytest
from examples import some
from repairs import fixed_bytes, header_codes

from i2s_spec.compare.hash import metadata_digest
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.fix import fix
from i2s_spec.linter.repair.tokenizer import FAMILIES
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, Model, array


def test_the_width_of_a_head_is_safe_where_tensors_confirm_it() -> None:
    model = Model("llama").set("llama.rope.dimension_count", 6)
    assert [action.code for action in fix(model.built()).actions] == ["M008"]
    heads = model.pair("llama.attention.head_count").value
    model.set("llama.attention.head_count", heads // 2)
    fixed = fix(model.built())
    assert fixed.actions == ()
    assert "attn_k does not confirm" in fixed.declined[0].why


def test_an_architecture_is_renamed_with_its_keys() -> None:
    old, new = Model("bitnet-25"), Model("bitnet-b1.58")
    old.set("general.name", new.pair("general.name").value)
    out, fixed = fixed_bytes(old.built(), unsafe=True)
    assert [action.code for action in fixed.actions] == ["M019"]
    assert metadata_digest(open_file(out)) == metadata_digest(open_file(new.built()))


def test_keys_of_another_architecture_are_renamed() -> None:
    model = Model("bitnet-b1.58")
    for pair in model.keys:
        pair.key = pair.key.replace(b"bitnet-b1.58.", b"bitnet-25.")
    out, fixed = fixed_bytes(model.built(), unsafe=True)
    assert metadata_digest(open_file(out)) == metadata_digest(open_file(Model("bitnet-b1.58").built()))
    assert {action.code for action in fixed.actions} == {"M018"}


def test_an_architecture_is_not_renamed_if_its_tensors_do_not_fit() -> None:
    model = Model("llama").set("general.architecture", b"bitnet-b1_58")
    fixed = fix(model.built(), unsafe=True)
    assert "M001" in {each.code for each in fixed.declined}
    assert "M001" not in {action.code for action in fixed.actions}


def test_repairs_of_suspicions_must_be_selected_by_name() -> None:
    model = Model("bitnet-b1.58").set("tokenizer.ggml.model", b"llama")
    data = model.built()
    assert "M117" in header_codes(data)
    assert "M117" not in {action.code for action in fix(data, unsafe=True).actions}
    out, fixed = fixed_bytes(data, unsafe=True, select=["M117"])
    assert [action.code for action in fixed.actions] == ["M117"]
    assert open_file(out).metadata["general.architecture"] == "bitnet"
    assert "bitnet.block_count" in open_file(out).metadata


def test_unknown_values_are_not_invented() -> None:
    data = Model("llama").drop("llama.context_length", "llama.attention.layer_norm_rms_epsilon").built()
    fixed = fix(data, unsafe=True)
    assert [each.code for each in fixed.declined].count("M002") == 2
    assert "config.json" in fixed.declined[0].why


def test_the_pre_tokenizer_is_repaired_for_known_vocabularies_only() -> None:
    data = Model("llama").drop("tokenizer.ggml.pre").built()
    assert [each.code for each in fix(data, unsafe=True).declined] == ["T009"]
    for family in some(FAMILIES):
        tokens = [f"token {i}" for i in range(max(i for i, _ in family.tokens) + 1)]
        for i, text in family.tokens:
            tokens[i] = text.decode()
        merges = [f"a b{i}" for i in range(family.merges)]
        for known in (True, False):
            out = io.BytesIO()
            values = {
                "tokenizer.ggml.tokens": Value("arr[str]", tokens),
                "tokenizer.ggml.merges": Value("arr[str]", merges),
            }
            rewrite(open_file(data), out, set=values)
            fixed = fix(out.getvalue(), unsafe=True, select=["T009"])
            assert [family.pre in action.does for action in fixed.actions] == [True] * known
            tokens[family.tokens[0][0]] = "something else"


# --- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "repaired"),
    [(ValueType.INT32, -1, False), (ValueType.INT64, 1 << 33, False), (ValueType.UINT64, 1, True),
     (ValueType.FLOAT32, 1.0, True), (ValueType.FLOAT32, 1.5, False), (ValueType.STRING, b"1", False),
     (ValueType.BOOL, 1, True)],
)  # fmt: skip
def test_types_are_corrected_where_the_value_fits(kind: ValueType, value: object, repaired: bool) -> None:
    data = Model("llama").set("llama.block_count", value, kind).built()
    out, fixed = fixed_bytes(data, unsafe=True, select=["M003"])
    assert bool(fixed.actions) is repaired
    assert ("M003" in header_codes(out)) is not repaired
    if repaired:
        assert open_file(out).metadata["llama.block_count"] == 1


def test_integers_become_floats_only_where_they_are_equal() -> None:
    for value, repaired in ((1 << 24, True), ((1 << 24) + 1, False), (0, True)):
        data = Model("llama").set("llama.rope.freq_base", value, ValueType.UINT32).built()
        assert bool(fix(data, unsafe=True, select=["M003"]).actions) is repaired
    items = Model("bitnet").set("tokenizer.ggml.scores", array(ValueType.INT32, [1] * 272)).built()
    assert fix(items, unsafe=True, select=["M003"]).actions


def test_arrays_of_anything_but_booleans_are_left_alone() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[7].value = array(ValueType.BOOL, [2] * 70_000)
    fixed = fix(draft.built(file))
    assert fixed.actions == ()
    assert "not an array of booleans" in fixed.declined[0].why
