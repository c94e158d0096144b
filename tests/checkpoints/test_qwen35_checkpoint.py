"""Checkpoints of Qwen3.5: the text model of a multimodal one, layers of both kinds, groups across value heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from receipts import statuses
from tiny_checkpoints import Maker, Tiny, qwen35

import i2s_spec as i2s
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt
from i2s_spec.errors import FormatError


def multimodal() -> Tiny:
    """The same model with a vision tower and layers that draft tokens, named as published folders are."""
    tiny = qwen35()
    text = tiny.config
    top = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "tie_word_embeddings": False}
    tiny.config = {**top, "text_config": text, "vision_config": {"depth": 1}}
    tiny.tensors = {name.replace("model.", "model.language_model."): each for name, each in tiny.tensors.items()}
    for name in ("model.visual.patch_embed.proj.weight", "model.visual.pos_embed.weight", "mtp.fc.weight"):
        tiny.tensors[name] = ("F32", np.ones((4, 4), "<f4"))
    return tiny


def test_the_text_model_of_a_multimodal_checkpoint(tmp_path: Path) -> None:
    files = []
    for name, tiny in (("text", qwen35()), ("whole", multimodal())):
        folder = tiny.write(tmp_path / name)
        assert lint_checkpoint(folder).findings == ()
        result = import_checkpoint(folder, tmp_path / f"{name}.gguf", to="F32", name="a")
        assert set(statuses(make_receipt(folder, tmp_path / f"{name}.gguf", only="abceghk")).values()) <= {
            "passed",
            "not made",
        }
        assert i2s.lint(tmp_path / f"{name}.gguf", select=("I4",), reference=str(folder), payload="full").findings == ()
        files.append((tmp_path / f"{name}.gguf").read_bytes())
    assert files[0] == files[1]
    assert result.notes == (
        "left out: 1 tensor of layers that draft further tokens (mtp.*)",
        "left out: 2 tensors of the vision tower (model.visual.*)",
    )


def test_value_heads_in_another_order_differ_from_the_checkpoint(tmp_path: Path) -> None:
    """lint --reference, for rows, columns and vectors of value heads."""
    tiny = qwen35()
    import_checkpoint(tiny.write(tmp_path / "a"), tmp_path / "a.gguf")
    for name in ("A_log", "in_proj_z.weight", "conv1d.weight"):
        words = tiny.tensors[f"model.layers.0.linear_attn.{name}"][1]
        words[:] = words[::-1].copy()
    words = tiny.tensors["model.layers.0.linear_attn.out_proj.weight"][1]
    words[:] = words[:, ::-1].copy()
    found = i2s.lint(tmp_path / "a.gguf", select=("I4",), reference=str(tiny.write(tmp_path / "b")), payload="full")
    names = ("ssm_a", "ssm_conv1d.weight", "attn_gate.weight", "ssm_out.weight")
    assert sorted(each.code for each in found.findings) == ["I402", "I402", "I405", "I405"]
    assert all(any(f"blk.0.{name}'" in each.message for each in found.findings) for name in names)


def test_a_file_has_the_layers_with_attention(tmp_path: Path) -> None:
    """By an interval where there is one, else of each layer."""
    for number, (kinds, interval) in enumerate({"lf": 2, "l": 2, "f": 1, "lfl": 2, "llff": None, "ffl": None}.items()):
        maker = {"l": 0, "f": 1}
        tiny, tensors = qwen35(), {}
        for name, each in tiny.tensors.items():
            if not name.startswith("model.layers."):
                tensors[name] = each
            for layer, kind in enumerate(kinds):
                if name.startswith(f"model.layers.{maker[kind]}."):
                    tensors[f"model.layers.{layer}.{name[15:]}"] = each
        words = {"l": "linear_attention", "f": "full_attention"}
        tiny.tensors = tensors
        tiny.config |= {"num_hidden_layers": len(kinds), "layer_types": [words[kind] for kind in kinds]}
        path = tmp_path / f"{number}.gguf"
        import_checkpoint(tiny.write(tmp_path / f"{number}"), path)
        with i2s.open(path) as file:
            assert file.metadata.get("qwen35.full_attention_interval") == interval
            each = file.metadata.get("qwen35.attention.recurrent_layers")
            assert (None if each is None else [bool(kind) for kind in each]) == (
                [kind == "l" for kind in kinds] if interval is None else None
            )
        assert statuses(make_receipt(tmp_path / f"{number}", path, only="gk"))["k"] == "passed"


def test_groups_across_value_heads_are_divided(tmp_path: Path) -> None:
    """Heads of 32 columns move, and so do the scales of groups of 128."""
    tiny = qwen35(kind="groups")
    maker = Maker(1, "F32", {})
    for name in ("in_proj_a", "in_proj_b"):
        maker.matrix(f"model.layers.0.linear_attn.{name}", (4, 128), "latent")
    tiny.tensors |= maker.tensors
    tiny.config["linear_num_value_heads"] = 8
    for name, shape in (("in_proj_qkv", (384, 128)), ("in_proj_z", (256, 128)), ("out_proj", (128, 256))):
        maker.matrix(f"model.layers.0.linear_attn.{name}", shape, "groups")
    for name, shape in (("in_proj_a.weight", (8, 128)), ("in_proj_b.weight", (8, 128)), ("conv1d.weight", (384, 1, 4)),
                        ("A_log", (8,)), ("dt_bias", (8,))):  # fmt: skip
        maker.add(f"model.layers.0.linear_attn.{name}", maker.random.standard_normal(shape).astype(np.float32))
    tiny.tensors |= maker.tensors
    folder = tiny.write(tmp_path / "a")
    import_checkpoint(folder, tmp_path / "a.gguf", to="F32", embedding="F32")
    assert set(statuses(make_receipt(folder, tmp_path / "a.gguf", only="abcegk")).values()) <= {"passed", "not made"}
    with pytest.raises(FormatError, match="has a scale for every 32 weights, which Q2_0 cannot store; F32"):
        import_checkpoint(folder, tmp_path / "b.gguf", to="Q2_0")
