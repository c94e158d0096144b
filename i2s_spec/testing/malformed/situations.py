"""How the rules can be met that no broken copy breaks: by other files, by other commands, or not at all.

Some faults are not in the bytes of a GGUF file: a path that leads nowhere, a checkpoint, a model that is run, a program
that does not know the file. Each has the files and the command that meet it; what is printed is not written here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from i2s_spec.schema import faults
from i2s_spec.testing.checkpoint_sample import LAYER, VOCAB, CheckpointSample, Q
from i2s_spec.testing.malformed.case import Bytes, model
from i2s_spec.testing.sample import Draft, Model


class Situation(NamedTuple):
    """A command that meets a rule, in a folder with these files.

    :param broken: where a GGUF file is at fault: its name, the path of the field in it, and the sound file that was broken
    :param most: how many lines of what is printed are about the rule
    :param needs: the module that the command cannot do without, what for, and the extra that brings it
    """

    command: str
    files: Mapping[str, Bytes] = {}
    broken: tuple[str, str, Bytes] | None = None
    needs: tuple[str, str, str] | None = None
    most: int | None = None


class Without(NamedTuple):
    """Why there is no command that meets a rule everywhere."""

    why: str


def _model(change: Callable[[Model], object], architecture: str = "llama") -> Bytes:
    return lambda: Model(architecture).changed(change).built()


def _run(change: Callable[[Model], object], path: str, architecture: str = "llama", **more: object) -> Situation:
    files = {"model.gguf": _model(change, architecture)}
    return Situation("i2s run model.gguf -p Hello -n 1", files, ("model.gguf", path, model(architecture)), **more)  # type: ignore[arg-type]


def _value(name: str, architecture: str = "llama") -> str:
    return f"key_values[{Model(architecture).place(name)}].value"


def _element(name: str, index: int, item: object) -> Callable[[Model], object]:
    return lambda model: model.items(f"tokenizer.ggml.{name}").__setitem__(index, item)


def _template(model: Model) -> Model:
    return model.set("tokenizer.chat_template", b"{{ messages[0].content }}{{ nothing.of.that }}")


def _large_norm(model: Model) -> None:
    """Weights of a norm that are finite, and with which sums are not."""
    tensor = model.tensor("output_norm.weight")
    tensor.data = struct.pack("<f", 3e38) * (len(tensor.data) // 4)


def _many_tokens() -> bytes:
    """A model with more tokens than a tokenizer reads, all of them empty: put into its bytes, since that is quicker."""
    model = Model("llama")
    model.items("tokenizer.ggml.tokens")[:] = [b""] * 4
    head, count, rest = model.built().partition(b"tokenizer.ggml.tokens" + struct.pack("<IIQ", 9, 8, 4))
    return head + count[:-8] + struct.pack("<Q", 4 + (1 << 20)) + bytes(8 << 20) + rest


def _checkpoint(head: bytes, length: int | None = None, data: bytes = b"") -> dict[str, Bytes]:
    whole = struct.pack("<Q", len(head) if length is None else length) + head + data
    config = json.dumps({"model_type": "bitnet", "quantization_config": {"quant_method": "bitnet"}}).encode()
    return {"model.safetensors": lambda: whole, "config.json": lambda: config, "base.gguf": lambda: Draft().data}


_NAME: Final = "model.layers.0.self_attn.q_proj.weight"
_CONVERT: Final = "i2s convert model.safetensors new.gguf --into base.gguf"
_TENSOR: Final = json.dumps({_NAME: {"dtype": "U8", "shape": [2, 4], "data_offsets": [0, 4]}}).encode()
_INDEX: Final = json.dumps({"weight_map": {_NAME: "model-00001-of-00002.safetensors"}}).encode()
_OBJECTS: Final = b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 128), }"
_NPY: Final = b"\x93NUMPY\1\0" + struct.pack("<H", 118) + _OBJECTS.ljust(117) + b"\n" + bytes(128)


def _folder(change: Callable[[CheckpointSample], object], scale: float = 0.5, index: bytes = b"") -> Situation:
    """A checkpoint in which one thing is broken; the form without bytes, since the files have no excerpts."""

    def content(name: str) -> Bytes:
        return lambda: CheckpointSample(scale).changed(change).files()[name]

    files: dict[str, Bytes] = {name: content(name) for name in ("config.json", "model.safetensors")}
    if index:
        files["model.safetensors.index.json"] = lambda: index
    return Situation("i2s lint --format concise .", files)


def _quantization(**values: str) -> Callable[[CheckpointSample], object]:
    return lambda sample: sample.config["quantization_config"].update(values)


def _twice(sample: CheckpointSample) -> None:
    """The matrices as floats that are ternary, under the mode online."""
    for name in [each for each in sample.tensors if each.endswith(".weight_scale")]:
        del sample.tensors[name]
        weight = name.removesuffix("_scale")
        _, (rows, cols), _ = sample.tensors[weight]
        words = struct.pack("<4f", -0.5, 0.0, 0.5, 0.5) * (rows * cols)
        sample.tensors[weight] = ("F32", (4 * rows, cols), words)
    _quantization(quantization_mode="online")(sample)


def _with_runtimes(make: Bytes, code: str) -> Situation:
    """A file that runtimes are asked about; the table of all of them, which follows, is the same for each rule."""
    return Situation(f"i2s lint --runtimes --select {code} --format concise model.gguf", {"model.gguf": make}, most=5)


SITUATIONS: Final[Mapping[str, Situation | Without]] = {
    "S901": Situation("i2s lint model.gguf"),
    "S902": Situation("i2s show ."),
    "S903": Without("what happens to a file while it is read is in none of its bytes"),
    **{code: Without("what a server answers is in no byte of a file") for code in sorted(faults.REMOTE)},
    "G412": Without("holes are a matter of the file system: a copy of the same bytes may have none"),
    "H101": Situation(_CONVERT, _checkpoint(b"{}", 1 << 40)),
    "H102": Situation(_CONVERT, _checkpoint(_TENSOR, data=bytes(4))),
    "H104": Situation(
        "i2s import . -o model.gguf",
        {"config.json": lambda: b"{}", "model.safetensors.index.json": lambda: _INDEX},
    ),
    "H105": Situation(
        "i2s verify model.gguf --receipt receipt.json",
        {"model.gguf": lambda: Draft().data, "receipt.json": lambda: b'{"schema_version": 9}'},
    ),
    "H201": _folder(lambda sample: None, index=_INDEX),
    "H202": _folder(lambda sample: sample.config.update(architectures=["MambaForCausalLM"], model_type="mamba")),
    "H203": _folder(lambda sample: sample.tensors.pop("model.norm.weight")),
    "H204": _folder(lambda sample: sample.tensors.pop(f"{LAYER}mlp.ffn_sub_norm.weight")),
    "H205": _folder(lambda sample: sample.floats(Q.replace("weight", "lora_A.weight"), (1, 8))),
    "H206": _folder(lambda sample: sample.config.update(vocab_size=2 * VOCAB)),
    "H207": _folder(lambda sample: sample.tensors.pop(f"{Q}_scale")),
    "H208": _folder(lambda sample: sample.tensors.update({Q: ("U8", (2, 8), b"\xff" + bytes(15))})),
    "H209": _folder(_quantization(quantization_mode="online")),
    "H210": _folder(lambda sample: None, scale=60.0),
    "H211": _folder(_twice),
    "H212": _folder(lambda sample: sample.floats("lm_head.weight", (VOCAB, 8), 2.0)),
    "H213": _folder(lambda sample: sample.floats("model.norm.weight", (8,), math.inf)),
    "H103": Situation("i2s encode weights.npy weights.i2s --scale 1", {"weights.npy": lambda: _NPY}),
    "P201": _with_runtimes(lambda: Draft("big").data, "P201"),
    "P202": _with_runtimes(lambda: Model("bitnet-b1.58").built(), "P202"),
    "P203": _with_runtimes(lambda: Model("qwen3").built(), "P203"),
    "P204": _with_runtimes(lambda: Model("bitnet-b1.58").built(), "P204"),
    "P205": _with_runtimes(lambda: Draft("big").data, "P205"),
    "T901": _run(lambda model: model.set("tokenizer.ggml.model", b"bert"), _value("tokenizer.ggml.model")),
    "T905": Situation(
        "i2s run model.gguf -p Hello -n 1 --force", {"model.gguf": _many_tokens},
        ("model.gguf", _value("tokenizer.ggml.tokens") + ".count", model("llama")),
    ),
    "T907": _run(
        _element("merges", 0, b"a zz"), _value("tokenizer.ggml.merges") + ".items[0]",
        needs=("tokenizers", "tokenizing text with a byte-level vocabulary", "tokenizer"),
    ),
    "T908": _run(
        _element("scores", 5, math.nan), _value("tokenizer.ggml.scores", "bitnet") + ".items[5]", "bitnet",
    ),
    "T909": _run(lambda model: model.set("tokenizer.ggml.pre", b"tekken"), _value("tokenizer.ggml.pre")),
    "T951": Situation(
        "echo Hello | i2s run model.gguf --chat --chat-format file", {"model.gguf": _model(_template)},
        ("model.gguf", _value("tokenizer.chat_template"), model("llama")), ("jinja2", "rendering a chat template", "chat"),
    ),
    "M901": Situation(
        "i2s run model.gguf --tokens 1,2 -n 1", {"model.gguf": _model(_large_norm)},
        ("model.gguf", f"data[{Model('llama').row('output_norm.weight')}]", model("llama")),
    ),
}  # fmt: skip
