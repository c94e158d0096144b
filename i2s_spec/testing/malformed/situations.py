"""How the rules can be met that no broken copy breaks: by other files, by other commands, or not at all.

Some faults are not in the bytes of a GGUF file: a path that leads nowhere, a checkpoint, a model that is run, a program
that does not know the file. Each has the files and the command that meet it (`SITUATIONS`); what is printed is not
written here. Others only another file of the same model shows: `compared` gives both files.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from i2s_spec.schema import faults, kinds
from i2s_spec.schema.types import BY_NAME, I2_S
from i2s_spec.testing.companions import Companion
from i2s_spec.testing.malformed.case import Bytes, key_field
from i2s_spec.testing.malformed.case import model as sound_model
from i2s_spec.testing.malformed.payload import SIZE, matrix, model, scaled, trits
from i2s_spec.testing.sample import LAYER, VOCAB, CheckpointSample, Draft, Model, Q, tensor_info


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
    return Situation("i2s run model.gguf -p Hello -n 1", files, ("model.gguf", path, sound_model(architecture)), **more)  # type: ignore[arg-type]


def _value(name: str, architecture: str = "llama") -> str:
    return key_field(name)(Model(architecture))


def _element(name: str, index: int, item: object) -> Callable[[Model], object]:
    return lambda model: model.items(f"tokenizer.ggml.{name}").__setitem__(index, item)


def _template(model: Model) -> Model:
    return model.set("tokenizer.chat_template", b"{{ messages[0].content }}{{ nothing.of.that }}")


def _large_norm(model: Model) -> None:
    """Give a norm weights that are finite, and with which sums are not."""
    tensor = model.tensor("output_norm.weight")
    tensor.data = struct.pack("<f", 3e38) * (len(tensor.data) // 4)


def _record_of(architecture: str) -> bytes:
    """Return the record of a sound model's header."""
    from i2s_spec.compare.header_record import header_record
    from i2s_spec.gguf.reader import open as open_file

    return json.dumps(header_record(open_file(Model(architecture).built()))).encode()


def _many_tokens() -> bytes:
    """Return a model with more tokens than a tokenizer reads, all of them empty: put into its bytes, since that is
    quicker.
    """
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


def _prefixed(sample: CheckpointSample) -> None:
    """Give tensors the names that `torch.compile` leaves."""
    sample.tensors = {f"_orig_mod.{name}": tensor for name, tensor in sample.tensors.items()}


def _folder(
    change: Callable[[CheckpointSample], object],
    scale: float = 0.5,
    index: bytes = b"",
    profile: str = "default",
    more: Mapping[str, Bytes] | None = None,
) -> Situation:
    """Return a checkpoint in which one thing is broken; the form without bytes, since the files have no excerpts."""

    def content(name: str) -> Bytes:
        return lambda: CheckpointSample(scale).changed(change).files()[name]

    files = dict(more or {})
    names = {name: name for name in ("config.json", "model.safetensors", "tokenizer.model")}
    if index:
        names["model.safetensors"] = "model-00002-of-00002.safetensors"
        files["model.safetensors.index.json"] = lambda: index
    files.update({new: content(name) for name, new in names.items()})
    how = "" if profile == "default" else f" --profile {profile}"
    return Situation(f"i2s lint{how} --format concise .", files)


def _quantization(**values: str) -> Callable[[CheckpointSample], object]:
    return lambda sample: sample.config["quantization_config"].update(values)


def _twice(sample: CheckpointSample) -> None:
    """Store the matrices as floats that are ternary, under the mode online."""
    for name in [each for each in sample.tensors if each.endswith(".weight_scale")]:
        del sample.tensors[name]
        weight = name.removesuffix("_scale")
        _, (rows, cols), _ = sample.tensors[weight]
        words = struct.pack("<4f", -0.5, 0.0, 0.5, 0.5) * (rows * cols)
        sample.tensors[weight] = ("F32", (4 * rows, cols), words)
    _quantization(quantization_mode="online")(sample)


def _with_runtimes(make: Bytes, code: str) -> Situation:
    """Return a file that runtimes are asked about; the table of all of them, which follows, is the same for each
    rule.
    """
    return Situation(f"i2s lint --runtimes --select {code} --format concise model.gguf", {"model.gguf": make}, most=5)


def _two_parts(change: Callable[[Model], object] = lambda model: None) -> list[bytes]:
    """Return a model in two parts that both have its keys."""
    model = Model("llama").changed(change)
    return model.split(3, len(model.tensors) - 3, all_keys=True)


def _set(make: Callable[[], list[bytes]], part: int, path: str) -> Situation:
    """Return a model in two files, of which one is wrong at a place."""
    names = [f"model-{number:05d}-of-00002.gguf" for number in (1, 2)]
    files: dict[str, Bytes] = {name: lambda number=number: make()[number] for number, name in enumerate(names)}  # type: ignore[misc]
    return Situation("i2s lint --format concise .", files, (names[part], path, lambda: _two_parts()[part]))


SITUATIONS: Final[Mapping[str, Situation | Without]] = {
    "S901": Situation("i2s lint model.gguf"),
    "S902": Situation("i2s show ."),
    "S904": Without("where a link leads is in no byte of a file"),
    "S905": Situation(
        "i2s lint --expect record.json --format concise model.gguf",
        {
            "model.gguf": _model(lambda model: model.set("llama.context_length", 64)),
            "record.json": lambda: _record_of("llama"),
        },
        ("model.gguf", _value("llama.context_length"), sound_model("llama")),
    ),
    "S903": Without("what happens to a file while it is read is in none of its bytes"),
    **{code: Without("what a server answers is in no byte of a file") for code in sorted(faults.REMOTE)},
    "G218": Without("released programs end at an alignment of 0, so no file with one is published"),
    "G412": Without("holes are a matter of the file system: a copy of the same bytes may have none"),
    "G233": _set(
        lambda: [_two_parts(lambda model: model.without("output_norm.weight"))[0], _two_parts()[1]], 0, "header"
    ),
    "G234": _set(
        lambda: [_two_parts()[0], Model("llama").split(2, len(Model("llama").tensors) - 2, all_keys=True)[1]], 1,
        "tensor_infos[0].name",
    ),
    "G235": _set(
        lambda: [_two_parts()[0], _two_parts(lambda model: model.set("general.architecture", b"mamba"))[1]], 1,
        _value("general.architecture"),
    ),
    "G238": _set(
        lambda: [_two_parts()[0], _two_parts(lambda model: model.set("general.name", b"another"))[1]], 1,
        _value("general.name"),
    ),
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
    "H214": _folder(_prefixed),
    "H215": _folder(lambda sample: None, more={"model-00001-of-00002.safetensors": lambda: b""}),
    "H216": _folder(lambda sample: None, profile="security", more={"training_args.bin": lambda: b""}),
    "H103": Situation("i2s encode weights.npy weights.i2s --scale 1", {"weights.npy": lambda: _NPY}),
    "P201": _with_runtimes(lambda: Draft("big").data, "P201"),
    "P202": _with_runtimes(lambda: Model("bitnet-b1.58").built(), "P202"),
    "P203": _with_runtimes(lambda: Model("bitnet-b1.58").built(), "P203"),
    "P204": _with_runtimes(lambda: Model("bitnet-b1.58").built(), "P204"),
    "P205": _with_runtimes(lambda: Draft("big").data, "P205"),
    "T901": _run(lambda model: model.set("tokenizer.ggml.model", b"bert"), _value("tokenizer.ggml.model")),
    "T905": Situation(
        "i2s run model.gguf -p Hello -n 1 --force", {"model.gguf": _many_tokens},
        ("model.gguf", _value("tokenizer.ggml.tokens") + ".count", sound_model("llama")),
    ),
    "T907": _run(
        _element("merges", 0, b"a zz"), _value("tokenizer.ggml.merges") + ".items[0]",
    ),
    "T908": _run(
        _element("scores", 5, math.nan), _value("tokenizer.ggml.scores", "bitnet") + ".items[5]", "bitnet",
    ),
    "T909": _run(lambda model: model.set("tokenizer.ggml.pre", b"tekken"), _value("tokenizer.ggml.pre")),
    "T951": Situation(
        "echo Hello | i2s run model.gguf --chat --chat-format file", {"model.gguf": _model(_template)},
        ("model.gguf", _value("tokenizer.chat_template"), sound_model("llama")),
        ("jinja2", "rendering a chat template", "chat"),
    ),
    "M901": Situation(
        "i2s run model.gguf --tokens 1,2 -n 1", {"model.gguf": _model(_large_norm)},
        ("model.gguf", f"data[{Model('llama').row('output_norm.weight')}]", sound_model("llama")),
    ),
}  # fmt: skip


# --- files beside a reference ----------------------------------------------------------------------------------------

#: Columns of the matrix; the number of rows follows from the payload.
_COLS = 512


class ReferenceCase(NamedTuple):
    """A file whose weights are not those of a reference, the code that a linter must give, and the path of the span."""

    name: str
    code: str
    path: str
    data: bytes
    reference: bytes
    also: frozenset[str] = frozenset()


def _codes(seed: int = 1) -> list[int]:
    return random.Random(seed).choices((0, 1, 2), k=4 * SIZE)


def _interleaved(codes: list[int], block: int) -> bytes:
    """Return codes in `interleave-128` and `interleave-64`."""
    lanes, made = block // 4, bytearray()
    for at in range(0, len(codes), block):
        for lane in range(lanes):
            a, b, c, d = codes[at + lane : at + block : lanes]
            made.append(a << 6 | b << 4 | c << 2 | d)
    return bytes(made)


def _by_rows(codes: list[int]) -> bytes:
    """Return codes in `rows-1x4`."""
    made = bytearray()
    for at in range(0, len(codes), 4 * _COLS):
        for col in range(_COLS):
            a, b, c, d = codes[at + col : at + 4 * _COLS : _COLS]
            made.append(a << 6 | b << 4 | c << 2 | d)
    return bytes(made)


def _file(payload: bytes, name: bytes = b"first.weight", scale: float = 0.5) -> bytes:
    return model(matrix(payload, name, _COLS, scaled(scale)))


def _with_gains(payload: bytes, gains: Sequence[float], name: bytes = b"gains.weight") -> bytes:
    """Return a file with a matrix and a tensor of F32."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    for each, ne, number, data in (
        (b"first.weight", (_COLS, 4 * len(payload) // _COLS), I2_S.number, payload + scaled(0.5)),
        (name, (len(gains),), BY_NAME["F32"].number, struct.pack(f"<{len(gains)}f", *gains)),
    ):
        file.tensor_infos.append(tensor_info(each, ne, number, len(file.data)))
        file.data += data
    return draft.built(file)


def compared() -> Iterator[ReferenceCase]:
    """Yield every case; the bytes are made when the case is reached.

    >>> [case.code for case in compared()]
    ['I401', 'I401', 'I401', 'I402', 'I402', 'I402', 'I403', 'I404', 'I405', 'I406', 'M209', 'M209', 'M218']
    """
    codes = _codes()
    right = _interleaved(codes, 128)
    sound = _file(right)
    for name, payload in (
        ("in-blocks-of-64", _interleaved(codes, 64)),
        ("four-rows-a-byte", _by_rows(codes)),
        ("zero-first-codes", _interleaved([(2, 0, 1)[code] for code in codes], 128)),
    ):
        yield ReferenceCase(name, "I401", "data[0]", _file(payload), sound)
    odd = bytearray(right)
    odd[1000:1016] = bytes(0xAA - byte for byte in odd[1000:1016])  # -1 and +1 exchanged
    odd[1000], odd[1015] = (0x55 if right[at] != 0x55 else 0xAA for at in (1000, 1015))
    yield ReferenceCase("a-few-weights", "I402", "data[0]", _file(bytes(odd)), sound)
    yield ReferenceCase(
        "signs-turned", "I402", "data[0]", _file(_interleaved([2 - code for code in codes], 128)), sound
    )
    yield ReferenceCase("another-model", "I402", "data[0]", _file(trits(SIZE, 9)), sound)
    yield ReferenceCase("another-scale", "I403", "data[0].tail.scale", _file(right, scale=2.0), sound)
    yield ReferenceCase("another-name", "I404", "tensor_infos[0].name", _file(right, b"second.weight"), sound)
    seeded = random.Random(2)
    gains = [seeded.uniform(0.5, 2.0) for _ in range(64)]
    floats = _with_gains(right, gains)
    yield ReferenceCase("gains-less-1", "I405", "data[1]", _with_gains(right, [gain - 1 for gain in gains]), floats)
    other = _with_gains(right, gains, b"other.weight")
    yield ReferenceCase("gains-of-another-name", "I406", "tensor_infos[1].name", other, floats)
    adapter = Companion(kinds.ADAPTER)
    adapter.set("general.architecture", b"qwen3")
    base = Model("llama").drop("tokenizer.chat_template").built()
    yield ReferenceCase("adapter-of-another-model", "M209", "key_values[0].value", adapter.built(), base)
    narrow = Companion(kinds.ADAPTER, width=64).built()
    yield ReferenceCase("adapter-of-another-width", "M209", "tensor_infos[0].ne", narrow, base)
    narrow = Companion(kinds.PROJECTOR, width=64).built()
    yield ReferenceCase("projector-of-another-width", "M218", "tensor_infos[8].ne", narrow, base)
