"""Import of checkpoints of every family as GGUF files: content of the result, and refused inputs."""

from __future__ import annotations

import json
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_checkpoints import (
    NORMS,
    SIZES,
    SUB_NORMS,
    TINY,
    TYPE,
    Maker,
    Tiny,
    bf16_2b4t,
    bfloat16,
    byte_tokenizer,
    embedding_gemma3,
    falcon_e,
    llama3,
    one_bit_llm,
    packed_2b4t,
    plain_llama,
)

import i2s_spec as i2s
from i2s_spec.checkpoints import families as recognition
from i2s_spec.checkpoints.families import BY_FAMILY, FAMILIES, recognize
from i2s_spec.checkpoints.import_checkpoint import Imported, import_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt
from i2s_spec.errors import FormatError


def imported(folder: Path, tiny: Tiny, **options: object) -> tuple[Imported, Path]:
    target = folder / "out.gguf"
    return import_checkpoint(tiny.write(folder / "checkpoint"), target, **options), target  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TINY)
def test_every_family_is_recognized(name: str, tmp_path: Path) -> None:
    family, make = TINY[name]
    result, path = imported(tmp_path, make(), to=TYPE.get(name, "I2_S"))
    assert result.recognized.family.name == family
    with i2s.open(path) as file:
        assert file.metadata["general.architecture"] == result.recognized.family.architecture
        assert len(file.metadata["tokenizer.ggml.tokens"]) == SIZES["vocab"]
        assert sum(result.types.values()) == len(file.tensors)


def test_packed_scales_multiply_or_divide(tmp_path: Path) -> None:
    for tiny, divides in ((packed_2b4t(), False), (llama3(), True)):
        folder = tmp_path / str(divides)
        _, path = imported(folder, tiny)
        words = tiny.tensors["model.layers.1.mlp.up_proj.weight_scale"][1]
        stored = (words.astype(np.uint32) << 16).view(np.float32)[0]
        with i2s.open(path) as file:
            assert file.tensors["blk.1.ffn_up.weight"].scale() == (np.float32(1 / float(stored)) if divides else stored)


def test_floats_become_trits_by_their_mean(tmp_path: Path) -> None:
    tiny = bf16_2b4t()
    _, path = imported(tmp_path, tiny)
    weights = (tiny.tensors["model.layers.0.mlp.gate_proj.weight"][1].astype(np.uint32) << 16).view(np.float32)
    with i2s.open(path) as file:
        tensor = file.tensors["blk.0.ffn_gate.weight"]
        assert np.array_equal(tensor.dequantize(), i2s.weight_quant(weights))


def test_queries_are_permuted_where_neighbours_rotate(tmp_path: Path) -> None:
    tiny = falcon_e(kind="ternary")
    _, path = imported(tmp_path, tiny, to="F32")
    words = tiny.tensors["model.layers.0.self_attn.k_proj.weight"][1]
    rows = (words.astype(np.uint32) << 16).view(np.float32).reshape(2, 2, 16, 128)  # heads, halves, pairs
    with i2s.open(path) as file:
        found = file.tensors["blk.0.attn_k.weight"].array()
    assert np.array_equal(found, rows.swapaxes(1, 2).reshape(64, 128))


def test_scales_of_groups_are_stored_for_each_half(tmp_path: Path) -> None:
    _, make = TINY["bonsai"]
    tiny = make()
    _, path = imported(tmp_path, tiny, to="Q2_0")
    words = tiny.tensors["model.layers.0.mlp.down_proj.weight"][1]
    with i2s.open(path) as file:
        assert np.array_equal(file.tensors["blk.0.ffn_down.weight"].dequantize(), words.astype(np.float32))
    with pytest.raises(FormatError, match=r"scale for every 128 weights, which I2_S cannot store; .*Q2_0.* can"):
        imported(tmp_path / "other", tiny)
    assert not (tmp_path / "other" / "out.gguf").exists()


def test_rows_get_the_scale_of_their_matrix(tmp_path: Path) -> None:
    """I2_SR: the codes of I2_S, and the scale once for each row."""
    _, one = imported(tmp_path / "one", packed_2b4t())
    _, each = imported(tmp_path / "each", packed_2b4t(), to="I2_SR")
    with i2s.open(one) as wanted, i2s.open(each) as file:
        assert file.metadata["general.file_type"] == 41
        for name in ("blk.0.ffn_up.weight", "blk.1.attn_q.weight"):
            tensor, other = file.tensors[name], wanted.tensors[name]
            assert tensor.kind == "I2_SR"
            rows = np.frombuffer(tensor.read()[len(other.payload) : -32], dtype="<f4")
            assert tensor.read().startswith(other.payload)
            assert rows.tolist() == [other.scale()] * tensor.shape[0]


def test_a_width_that_does_not_fit_is_refused_with_types_that_do(tmp_path: Path) -> None:
    tiny = one_bit_llm()
    tiny.config["intermediate_size"] = 192
    tiny.tensors = Maker(1, "F16", {**SIZES, "ff": 192}).model(
        "latent", {**NORMS, "self_attn.inner_attn_ln": "q", "mlp.ffn_layernorm": "ff"}, tied=True
    )
    with pytest.raises(
        FormatError, match=r"I2_S cannot hold a matrix of shape \[128, 192\].*types that can hold.*Q2_0"
    ):
        imported(tmp_path, tiny)
    result, _ = imported(tmp_path, tiny, fallback="Q2_0")
    assert (result.types["Q2_0"], result.types["I2_S"]) == (2, 12)


def test_gemma_norms_have_one_added(tmp_path: Path) -> None:
    tiny = embedding_gemma3()
    _, path = imported(tmp_path, tiny)
    words = tiny.tensors["layers.0.post_feedforward_layernorm.weight"][1]
    inner = tiny.tensors["layers.0.mlp.up_proj.rms_norm.weight"][1]
    with i2s.open(path) as file:
        found = file.tensors["blk.0.post_ffw_norm.weight"].array()
        assert np.array_equal(found, (words.astype(np.uint32) << 16).view(np.float32) + np.float32(1))
        assert np.array_equal(
            file.tensors["blk.0.ffn_up_norm_in.weight"].array(), (inner.astype(np.uint32) << 16).view(np.float32)
        )


def test_metadata_has_the_usual_keys(tmp_path: Path) -> None:
    _, path = imported(tmp_path, packed_2b4t(), name="Tiny", source="someone/tiny")
    with i2s.open(path) as file:
        found = dict(file.metadata)
    assert found["general.name"] == "Tiny"
    assert found["general.license"] == "mit"
    assert found["general.source.huggingface.repository"] == "someone/tiny"
    assert found["general.file_type"] == 40
    assert found["bitnet-b1.58.rope.freq_base"] == 500000.0
    assert found["tokenizer.ggml.pre"] == "llama-bpe"
    assert found["tokenizer.ggml.eot_token_id"] == 383
    assert found["tokenizer.ggml.eos_token_id"] == 382
    assert found["tokenizer.ggml.add_bos_token"] is True
    assert "<|eot_id|>" in found["tokenizer.chat_template"]


@pytest.mark.parametrize(
    ("processor", "first", "last"),
    [
        (None, False, False),
        ({"type": "ByteLevel"}, False, False),
        ({"type": "RobertaProcessing", "cls": ["a", 1], "sep": ["b", 2]}, True, True),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "BertProcessing"}]}, True, True),
        ({"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"SpecialToken": {"id": "b"}}]}, False, True),
    ],
)
def test_the_post_processor_adds_tokens(tmp_path: Path, processor: object, first: bool, last: bool) -> None:
    tiny = packed_2b4t()
    tiny.files["tokenizer.json"]["post_processor"] = processor
    for key in ("add_bos_token", "add_eos_token"):
        tiny.files["tokenizer_config.json"].pop(key, None)
    _, path = imported(tmp_path, tiny)
    with i2s.open(path) as file:
        found = file.metadata
        assert found["tokenizer.ggml.add_bos_token"] is first
        assert found.get("tokenizer.ggml.add_eos_token", False) is last


def test_families_of_falcon_are_recognized_by_vocabulary_size(tmp_path: Path) -> None:
    from i2s_spec.checkpoints.folder import CheckpointFolder

    for vocab, name in ((131072, "falcon3"), (32768, "falcon-e"), (128256, "hf1bitllm")):
        tiny = llama3()
        tiny.config["vocab_size"] = vocab
        with CheckpointFolder(tiny.write(tmp_path / name)) as folder:
            assert recognize(folder).family.name == name


def test_llama3_scaling_becomes_factors(tmp_path: Path) -> None:
    tiny = plain_llama()
    tiny.config["rope_scaling"] = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    _, path = imported(tmp_path, tiny)
    with i2s.open(path) as file:
        factors = file.tensors["rope_freqs.weight"].array()
    assert (factors.shape, factors[0], factors[-1]) == ((16,), 1.0, 8.0)
    assert (np.diff(factors) >= 0).all()


def test_empty_rope_parameters_do_not_hide_rope_scaling(tmp_path: Path) -> None:
    tiny = llama3()
    tiny.config |= {"rope_parameters": None, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    _, path = imported(tmp_path, tiny)
    with i2s.open(path) as file:
        assert file.metadata["llama.rope.scaling.type"] == "linear"


def test_an_option_says_how_packed_scales_are_used(tmp_path: Path) -> None:
    tiny = packed_2b4t()
    _, wanted = imported(tmp_path / "a", tiny, name="same")
    del tiny.config["quantization_config"]
    _, path = imported(tmp_path / "b", tiny, name="same", weight_scale="multiply")
    assert path.read_bytes() == wanted.read_bytes()


@pytest.mark.parametrize("rows", [64, 256])
def test_rows_of_zeros_are_not_taken_for_ternary_weights(rows: int, tmp_path: Path) -> None:
    tiny = bf16_2b4t()
    tiny.tensors["model.layers.0.mlp.up_proj.weight"][1][:rows] = 0
    result, path = imported(tmp_path, tiny)
    assert result.rules == {"absmean": 14}
    with i2s.open(path) as file:
        trits = file.tensors["blk.0.ffn_up.weight"].trits()
    assert not trits[:rows].any()
    assert trits[rows:].any() == (rows < 256)
    checks = {each["id"]: each["status"] for each in make_receipt(tmp_path / "checkpoint", path)["checks"]}
    assert (checks["b"], checks["c"]) == ("passed", "passed")


def test_a_scale_without_a_reciprocal_is_refused_without_a_warning(tmp_path: Path) -> None:
    tiny = llama3()
    tiny.tensors[_Q + "_scale"][1][0] = 1  # the smallest positive BF16 number
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match="not a positive number"):
            imported(tmp_path, tiny)


# --- refusals: one sentence, no file written ----------------------------------------------------------------------


def _edit(change: Callable[[Tiny], object], make: Callable[[], Tiny] = packed_2b4t) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        tiny = make()
        change(tiny)
        tiny.write(folder)

    return made


def _after(change: Callable[[Path], object], make: Callable[[], Tiny] = packed_2b4t) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        make().write(folder)
        change(folder)

    return made


def _json(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:  # type: ignore[type-arg]
    def changed(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        change(found)
        (folder / name).write_text(json.dumps(found))

    return _after(changed, llama3)


_INDEX = "model.safetensors.index.json"
_Q = "model.layers.0.self_attn.q_proj.weight"


def _with_value(name: str, bits: int) -> Callable[[Tiny], None]:
    def change(tiny: Tiny) -> None:
        tiny.tensors[name][1].reshape(-1)[5] = bits

    return change


def _tokenizer(change: Callable[[dict], object]) -> Callable[[Path], None]:  # type: ignore[type-arg]
    return _edit(lambda tiny: change(tiny.files["tokenizer.json"]))


def _hostile(tokenizer: dict) -> None:  # type: ignore[type-arg]
    tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated", "invert": False}


def _large_config(folder: Path) -> None:
    with open(folder / "config.json", "r+b") as file:
        file.truncate(300 << 20)  # a sparse file: it must not be read


def _header(change: Callable[[dict[str, Any]], object], more: bytes = b"") -> Callable[[Path], None]:
    """The header of a checkpoint's one file changed, and bytes put behind the data."""

    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        stop = 8 + struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:stop])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[stop:] + more)

    return _after(changed)


def _shared(header: dict[str, Any]) -> None:
    header[_UP]["data_offsets"] = header[_UP.replace("up_proj", "gate_proj")]["data_offsets"]


def _inside(header: dict[str, Any]) -> None:
    start = header["model.embed_tokens.weight"]["data_offsets"][0] + 2
    header["model.norm.weight"]["data_offsets"] = [start, start + 256]


_UP = "model.layers.1.mlp.up_proj.weight"

REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing shard": (_after(lambda f: (f / "model-00002-of-00003.safetensors").unlink(), llama3), "which is missing"),
    "index lists more": (
        _json(_INDEX, lambda i: i["weight_map"].update(x="model-00001-of-00003.safetensors")),
        "lists tensor 'x', which no shard has",
    ),
    "index lists less": (_json(_INDEX, lambda i: i["weight_map"].pop(_Q)), "is in a shard and not in"),
    "index elsewhere": (
        _json(
            _INDEX,
            lambda i: i["weight_map"].update(
                {_Q: "model-00001-of-00003.safetensors", "lm_head.weight": "model-00002-of-00003.safetensors"}
            ),
        ),
        "it is in another shard",
    ),
    "slash in shard": (
        _json(_INDEX, lambda i: i["weight_map"].update({_Q: "../secret.safetensors"})),
        "not the name of a safetensors file",
    ),
    "index is no map": (_json(_INDEX, lambda i: i.update(weight_map=[1])), "has no weight_map"),
    "shards share a tensor": (
        _after(
            lambda f: (
                shutil.copy(f / "model.safetensors", f / "model-b.safetensors"),
                (f / "model.safetensors").rename(f / "model-a.safetensors"),
            )
        ),
        "is in another file too",
    ),
    "pickle": (_after(lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin")), "pickles .*not opened"),
    "pickle as safetensors": (
        _after(lambda f: (f / "model.safetensors").write_bytes(b"PK\3\4" + b"\x80\2}q" * 9)),
        "H101",
    ),
    "no config": (_after(lambda f: (f / "config.json").unlink()), "no config.json"),
    "large config": (_after(_large_config), "314,572,800 bytes; the limit is 1,048,576"),
    "config is not JSON": (_after(lambda f: (f / "config.json").write_text("{")), "is not JSON"),
    "config is deep": (_after(lambda f: (f / "config.json").write_text('{"a":' * 100_000)), "is not JSON"),
    "config has NaN": (_after(lambda f: (f / "config.json").write_text('{"a": NaN}')), "NaN is not a number"),
    "no family": (
        _edit(lambda t: t.config.update(architectures=["MambaForCausalLM"])),
        "family is not known. Seen: .*Mamba.*Known: .*bitnet-2b4t",
    ),
    "unknown quantization": (
        _edit(lambda t: t.config["quantization_config"].update(quant_method="gptq")),
        "quant_method 'gptq'",
    ),
    "unknown mode": (
        _edit(lambda t: t.config["quantization_config"].update(quantization_mode="later")),
        "mode 'later'",
    ),
    "unknown linear": (_edit(lambda t: t.config["quantization_config"].update(linear_class="x")), "linear_class 'x'"),
    "wrong sizes": (_edit(lambda t: t.config.update(intermediate_size=512)), "config.json gives"),
    "size is text": (_edit(lambda t: t.config.update(hidden_size="128")), "hidden_size in config.json is '128'"),
    "heads do not divide": (_edit(lambda t: t.config.update(num_key_value_heads=3)), "not a multiple"),
    "many layers": (_edit(lambda t: t.config.update(num_hidden_layers=10**9)), "whole number from 1 to 512"),
    "layer too many": (_edit(lambda t: t.config.update(num_hidden_layers=1)), "is in layer 1; config.json has 1"),
    "other activation": (
        _edit(lambda t: t.config.update(hidden_act="gelu")),
        "hidden_act is 'gelu'; .* computes relu2",
    ),
    "NaN weight": (_edit(_with_value(_Q, 0x7FC0), bf16_2b4t), "1 value that is infinite or NaN"),
    "infinite norm": (_edit(_with_value("model.norm.weight", 0x7F80)), "1 value that is infinite or NaN"),
    "infinite scale": (_edit(lambda t: t.tensors[_Q + "_scale"][1].__setitem__(0, 0x7F80)), "not a positive number"),
    "negative scale": (_edit(lambda t: t.tensors[_Q + "_scale"][1].__setitem__(0, 0xBF80)), "not a positive number"),
    "code 3": (_edit(lambda t: t.tensors[_Q][1].__setitem__((0, 0), 255)), _Q),
    "no scale": (_edit(lambda t: t.tensors.pop(_Q + "_scale")), "H102"),
    "missing tensor": (
        _edit(lambda t: t.tensors.pop("model.layers.1.mlp.ffn_sub_norm.weight")),
        "ffn_sub_norm.weight' is missing",
    ),
    "unknown tensor": (
        _edit(lambda t: t.tensors.update({"model.layers.0.lora_A.weight": t.tensors["model.norm.weight"]})),
        "lora_A.weight' does not belong to bitnet-2b4t",
    ),
    "head inside of the body": (
        _edit(lambda t: t.tensors.update({"model.lm_head.weight": t.tensors["model.embed_tokens.weight"]})),
        "'model.lm_head.weight' does not belong to bitnet-2b4t",
    ),
    "tensor outside of the body": (
        _edit(lambda t: t.tensors.update({_Q.removeprefix("model."): t.tensors["model.norm.weight"]})),
        "'layers.0.self_attn.q_proj.weight' does not belong to bitnet-2b4t",
    ),
    "scale beside floats": (
        _edit(lambda t: t.tensors.update({_Q + "_scale": ("BF16", bfloat16(np.ones(1, np.float32)))}), bf16_2b4t),
        "q_proj.weight_scale' belongs to a packed matrix, and .* is 'BF16'",
    ),
    "packed, and nothing says how": (
        _edit(lambda t: t.config.pop("quantization_config")),
        "no quantization_config, which says whether weight_scale multiplies or divides",
    ),
    "untied head": (
        _edit(lambda t: t.tensors.update({"lm_head.weight": ("BF16", bfloat16(np.ones((384, 128), np.float32)))})),
        "differs from the embedding",
    ),
    "no head": (_edit(lambda t: t.tensors.pop("lm_head.weight"), llama3), "there is no lm_head.weight"),
    "not ternary": (
        _edit(lambda t: t.tensors.update(Maker(1, "F16", SIZES).model("latent", NORMS, tied=False)), plain_llama),
        "not ternary: its first row has .* magnitudes",
    ),
    "ternary online": (
        _edit(lambda t: t.tensors.update(Maker(1, "BF16", SIZES).model("ternary", NORMS, tied=True)), bf16_2b4t),
        "would quantize it again",
    ),
    "no tokenizer": (_edit(lambda t: t.files.pop("tokenizer.json")), "neither tokenizer.json nor tokenizer.model"),
    "holes": (_tokenizer(lambda t: t["model"]["vocab"].pop("!")), "holes: no token has the id 0"),
    "id twice": (_tokenizer(lambda t: t["model"]["vocab"].update({"!": 1})), "two tokens have the id 1"),
    "id beyond": (_tokenizer(lambda t: t["model"]["vocab"].update({"!!!": 384})), "the embedding has 384 rows"),
    "id is text": (_tokenizer(lambda t: t["model"]["vocab"].update({"!": "0"})), "token '!' has the id '0'"),
    "merge of nothing": (_tokenizer(lambda t: t["model"]["merges"].append("Q Q")), "does not join two tokens"),
    "merge is no pair": (_tokenizer(lambda t: t["model"]["merges"].append("abc")), "not a pair"),
    "other tokenizer": (_tokenizer(lambda t: t["model"].update(type="WordPiece")), "a model of type 'WordPiece'"),
    "other splits": (_tokenizer(_hostile), "splits text like none of"),
    "post-processor is a list": (_tokenizer(lambda t: t.update(post_processor=[5])), "post_processor .* not an object"),
    "other post-processor": (_tokenizer(lambda t: t.update(post_processor={"type": 5})), "an unknown type: '5'"),
    "post-processors are a number": (
        _tokenizer(lambda t: t.update(post_processor={"type": "Sequence", "processors": 5})),
        "a sequence of tokenizer.json has no list of processors",
    ),
    "template is text": (
        _tokenizer(lambda t: t.update(post_processor={"type": "TemplateProcessing", "single": ["<s>", "A"]})),
        "is not a list of tokens and texts",
    ),
    "broken splits": (_tokenizer(lambda t: t.update(pre_tokenizer={"type": "Nothing"})), "cannot be used"),
    "special token unknown": (
        _edit(lambda t: t.files["tokenizer_config.json"].update(eos_token="<none>")),
        "'<none>', which is not a token",
    ),
    "special id beyond": (
        _edit(lambda t: t.files["generation_config.json"].update(eos_token_id=[384])),
        "eos_token_id is 384",
    ),
    "piece file cut": (
        _edit(lambda t: t.files.update({"tokenizer.model": t.files["tokenizer.model"][:-3]}), one_bit_llm),
        "ends inside",
    ),
    "piece file of nothing": (_edit(lambda t: t.files.update({"tokenizer.model": b""}), one_bit_llm), "no pieces"),
    "score NaN": (
        _edit(
            lambda t: t.files.update({"tokenizer.model": b"\n\x08\n\1a\x15" + struct.pack("<f", np.nan)}), one_bit_llm
        ),
        "is not a number",
    ),
    "added tokens are a number": (_tokenizer(lambda t: t.update(added_tokens=5)), "added_tokens .* is not a list"),
    "id is a list": (
        _edit(
            lambda t: (
                t.files["tokenizer.json"]["added_tokens"][0].update(id=[1]),
                t.files["tokenizer_config.json"].update(added_tokens_decoder={}),
            )
        ),
        "an added token of the tokenizer has no id and content",
    ),
    "half of a character": (
        _edit(lambda t: t.files["tokenizer_config.json"].update(chat_template="\ud800")),
        "lone surrogate",
    ),
    "linear class is a list": (
        _edit(lambda t: t.config["quantization_config"].update(linear_class=["autobitlinear"])),
        "linear_class .*; known are bitlinear, autobitlinear",
    ),
    "number without end": (
        _after(lambda f: (f / "config.json").write_text('{"a": ' + "9" * 5000 + "}")),
        "is not JSON: a number has 5,000 digits",
    ),
    "two tensors in one place": (
        _header(_shared),
        r"begins at byte [\d,]+, inside tensor 'model.layers.1.mlp.\w+.weight'",
    ),
    "a tensor inside another": (_header(_inside), "belong to no tensor|inside tensor 'model.embed_tokens.weight'"),
    "bytes of no tensor": (_header(lambda h: None, b"x" * 9), "belong to no tensor"),
    "activation is a list": (
        _edit(lambda t: t.config.update(hidden_act=["relu2"])),
        "hidden_act in config.json is .*; it must be the name of an activation",
    ),
    "template is a number": (_edit(lambda t: t.files["tokenizer_config.json"].update(chat_template=5)), "not a string"),
    "templates without names": (
        _edit(lambda t: t.files["tokenizer_config.json"].update(chat_template=[{"template": "x"}])),
        "its entries are not named templates",
    ),
    "token is a number": (
        _edit(lambda t: t.files["tokenizer_config.json"].update(bos_token={"content": 5})),
        "bos_token '5', which is not a text",
    ),
    "number beyond float32": (_edit(lambda t: t.config.update(rms_norm_eps=1e-60)), "must be a number above 0"),
    "number beyond floats": (_edit(lambda t: t.config.update(rms_norm_eps=10**299)), "must be a number above 0"),
    "half of a head rotates": (_edit(lambda t: t.config.update(partial_rotary_factor=0.5)), "partial_rotary_factor"),
    "scaling is a list": (_edit(lambda t: t.config.update(rope_scaling={"type": ["yarn"]})), "positions are scaled by"),
    "rotation is a list": (
        _edit(lambda t: t.config.update(rope_parameters={"full_attention": [1]})),
        "rope_parameters in config.json is not an object",
    ),
    "scaling unknown": (
        _edit(lambda t: t.config.update(rope_scaling={"type": "dynamic", "factor": 2.0})),
        "scaled by 'dynamic'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_checkpoints_are_refused_in_one_line_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    make, words = REFUSED[name]
    make(tmp_path / "checkpoint")
    with pytest.raises(FormatError, match=words) as found:
        import_checkpoint(tmp_path / "checkpoint", tmp_path / "out.gguf")
    assert "\n" not in str(found.value)
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint"]


def test_the_pre_tokenizer_is_recognized_or_chosen(tmp_path: Path) -> None:
    tiny = packed_2b4t()
    tiny.files["tokenizer.json"] = byte_tokenizer(384, "qwen2")
    result, path = imported(tmp_path / "a", tiny)
    with i2s.open(path) as file:
        assert file.metadata["tokenizer.ggml.pre"] == "qwen2"
    assert result.notes == ("text is split as qwen2 does, not as llama-bpe",)
    _, path = imported(tmp_path / "b", tiny, pre="gpt-2")
    with i2s.open(path) as file:
        assert file.metadata["tokenizer.ggml.pre"] == "gpt-2"


def test_unknown_choices_are_refused(tmp_path: Path) -> None:
    for options in (
        {"to": "Q4_0"},
        {"embedding": "Q8_0"},
        {"fallback": "Z"},
        {"rule": "best"},
        {"family": "x"},
        {"pre": "x"},
    ):
        with pytest.raises(ValueError, match=r"there (are|is)"):
            imported(tmp_path, packed_2b4t(), **options)
    assert not (tmp_path / "out.gguf").exists()


def test_quantization_mode_online_gives_a_note(tmp_path: Path) -> None:
    """What transformers would do with the weights, and what was done, for each way to take them."""
    result, _ = imported(tmp_path / "a", bf16_2b4t())
    assert [note for note in result.notes if "online: transformers quantizes the floats to trits in every pass" in note]
    tiny = packed_2b4t()
    assert imported(tmp_path / "b", tiny)[0].notes == ()
    tiny.config["quantization_config"]["quantization_mode"] = "online"
    result, _ = imported(tmp_path / "c", tiny)
    assert [
        note for note in result.notes if "ignores weight_scale; the packed matrices were converted with theirs" in note
    ]
    tiny = bf16_2b4t()
    tiny.tensors = Maker(2, "BF16", SIZES).model("ternary", SUB_NORMS, tied=True)
    with pytest.raises(FormatError, match="quantize it again"):
        imported(tmp_path / "d", tiny)
    result, _ = imported(tmp_path / "e", tiny, rule="ternary")
    assert [note for note in result.notes if "again; they were kept unchanged" in note]


def test_a_family_recognized_by_an_unverified_number_gives_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the size of its vocabulary distinguishes Falcon-E from other Llama models with BitLinear."""
    falcon = BY_FAMILY["falcon-e"]
    architecture, bitnet, size = falcon.when
    families = [falcon._replace(when=(architecture, bitnet, size._replace(values=(SIZES["vocab"],)))), *FAMILIES]
    monkeypatch.setattr(recognition, "FAMILIES", families)
    result, path = imported(tmp_path / "a", falcon_e())
    assert (result.recognized.family.name, result.notes) == ("falcon-e", (falcon.caution,))
    with i2s.open(path) as file:
        assert file.metadata["tokenizer.ggml.pre"] == "falcon_e"
    result, path = imported(tmp_path / "b", falcon_e(), family="hf1bitllm")
    assert result.notes == ()
    with i2s.open(path) as file:
        assert file.metadata["tokenizer.ggml.pre"] == "llama-bpe"
