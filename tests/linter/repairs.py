"""What tests of repairs share: a repaired file, the laws of repairs, and faults that leave a model readable."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from finding_codes import codes_of

from i2s_spec.compare.hash import hash as identity
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.fix import Fixed, fix
from i2s_spec.linter.repair.plan import chosen, plan
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Model, array


def fixed_bytes(data: bytes, **options: object) -> tuple[bytes, Fixed]:
    """A repaired file, and what was done; of one that is not written, the original."""
    out = io.BytesIO()
    fixed = fix(data, out, **options)  # type: ignore[arg-type]
    return (out.getvalue() if fixed.written else data), fixed


#: Findings in the header, since payloads are not repaired.
header_codes = partial(codes_of, payload="none")


def weights(data: bytes) -> str:
    return identity(open_file(data)).weights


def check_repairs(data: bytes, unsafe: bool) -> None:
    """Repaired findings are gone, a second run changes nothing, and a safe repair changes no tensor."""
    made = plan(BufferSource(data), chosen(), unsafe)
    out = made.source.read(0, made.source.size)
    if not made.actions:
        assert out == data
        return
    again = plan(BufferSource(out), chosen(), unsafe)
    assert again.actions == ()
    assert again.source.read(0, again.source.size) == out

    left = header_codes(out)
    claimed = {action.code for action in made.actions} - {each.code for each in made.declined}
    assert not claimed & left
    if not unsafe:
        assert all(action.safe for action in made.actions)
        check_tensors_are_untouched(data, made.source.changes())


def check_tensors_are_untouched(data: bytes, changes: object) -> None:
    """No change of a safe repair is inside a tensor, whatever else is wrong with the file."""
    file = File(BufferSource(data))
    spans = []
    for tensor in file.tensors.rows if file.data_start is not None else ():
        with suppress(FormatError):  # its size is unknown
            spans.append(tensor.span)
    for change in changes:  # type: ignore[attr-defined]
        old = change.old
        assert not any(old.start < span.stop and span.start < old.stop for span in spans), change


Breaking = Callable[[Model], object]

#: Faults of a model that leave it readable, with the code that each gives.
BREAKINGS: dict[str, Breaking] = {
    "M002": lambda m: m.drop("{arch}.feed_forward_length"),
    "M003": lambda m: m.set("{arch}.block_count", 1, ValueType.INT32),
    "M004": lambda m: m.set("{arch}.embedding_length", 0),
    "M005": lambda m: m.set("{arch}.feed_forward_length", array(ValueType.UINT32, [8, 9, 7]), ValueType.ARRAY),
    "M006": lambda m: m.set("{arch}.attention.head_count", 3),
    "M007": lambda m: m.set("{arch}.attention.head_count_kv", 3),
    "M008": lambda m: m.set("{arch}.rope.dimension_count", 6),
    "M010": lambda m: m.drop("{arch}.rope.freq_base"),
    "M012": lambda m: m.drop("general.quantization_version"),
    "M013": lambda m: m.set("{arch}.vocab_size", 7),
    "M014": lambda m: m.add("{arch}.expert_used_count", ValueType.UINT32, 2),
    "M030": lambda m: m.set("general.file_type", 1),
    "T001": lambda m: m.drop("tokenizer.ggml.model"),
    "T002": lambda m: m.set("tokenizer.ggml.model", b"hf"),
    "T003": lambda m: m.items("tokenizer.ggml.merges").insert(3, b"a b c"),
    "T004": lambda m: m.pair("tokenizer.ggml.token_type").value["items"].append(1),
    "T007": lambda m: m.items("tokenizer.ggml.tokens").__setitem__(5, b""),
    "T006": lambda m: m.items("tokenizer.ggml.tokens").__setitem__(9, m.items("tokenizer.ggml.tokens")[4]),
    "T008": lambda m: m.set("tokenizer.ggml.eos_token_id", 1 << 20),
    "G203": lambda m: m.add("general.architecture", ValueType.STRING, b"other"),
    "G205": lambda m: m.add("general.\u0430uthor", ValueType.UINT8, 1),
    "G215": lambda m: m.drop("tokenizer.ggml.add_bos_token").add("tokenizer.ggml.add_bos_token", ValueType.BOOL, 7),
    "M102": lambda m: m.like("blk.0.surplus.weight", (8,), "F32"),
    "M106": lambda m: m.like("blk.0.attn_norm.weight", m.tensor("blk.0.attn_norm.weight").ne, "F16"),
    "G303": lambda m: m.tensors.append(m.tensors[0]),
}


def with_gap(data: bytes) -> bytes:
    """The file with 64 more bytes between the first tensor and the others."""
    file = open_file(data)
    tensors = sorted(file.tensors.rows, key=lambda tensor: tensor.offset)
    broken = bytearray(data)
    for tensor in tensors[1:]:
        at = tensor.info_span.stop - 8
        broken[at : at + 8] = struct.pack("<Q", tensor.offset + 64)
    assert file.data_start is not None
    cut = file.data_start + tensors[1].offset
    return bytes(broken[:cut] + b"hidden".ljust(64) + broken[cut:])
