"""One fault has one code: its consequences are not reported as well, and valid files have no finding."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from finding_codes import codes_of

from i2s_spec.errors import Span
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.strings import utf8_damage
from i2s_spec.linter.analysis.context import LintContext, uncounted
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.options import found
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.runtimes.verdicts import verdicts
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import I2_S, ValueType, padded
from i2s_spec.testing.sample import NOTED, Draft, Model, array, tensor_info

TAIL = 32


def repaired(data: bytes) -> bytes:
    """A file after all repairs, which made again change nothing."""
    once, again = io.BytesIO(), io.BytesIO()
    fix(data, once, unsafe=True)
    fix(once.getvalue(), again, unsafe=True)
    assert again.getvalue() == once.getvalue()
    return once.getvalue()


def realigned(data: bytes, alignment: int) -> bytes:
    """A sound file with its tensors laid out anew in steps of `alignment`, which `general.alignment` says already."""
    file = File(BufferSource(data))
    assert file.infos_end is not None
    header, content = bytearray(data[: file.infos_end]), bytearray()
    for tensor in file.tensors.rows:
        at = tensor.info_span.stop - 8
        header[at : at + 8] = struct.pack("<Q", len(content))
        # The stated alignment moves the start of data for readers; the tensors remain where alignment 32 put them.
        start = padded(file.infos_end, 32) + tensor.offset
        content += data[start : start + tensor.nbytes].ljust(padded(tensor.nbytes, alignment), b"\0")
    return bytes(header).ljust(padded(len(header), alignment), b"\0") + bytes(content)


def stating(alignment: int) -> bytes:
    """A model in steps of 32 that states another alignment, with the data where that one does not put them."""
    for fill in range(0, alignment + 32, 8):
        model = Model("bitnet-b1.58").set("general.name", b"n" * (1 + fill))
        data = model.add("general.alignment", ValueType.UINT32, alignment).built()
        end = File(BufferSource(data)).infos_end
        assert end is not None
        if padded(end, 32) != padded(end, alignment):
            return data
    raise AssertionError("some length of the name moves the data")


@pytest.mark.parametrize(("alignment", "code"), [(64, "G222"), (256, "G222"), (16, "G222"), (8, "G222"), (4, "G220")])
def test_an_alignment_that_the_data_do_not_follow_is_the_only_finding(alignment: int, code: str) -> None:
    """The payloads are where the offsets and the end of the file say, not where the wrong key does."""
    data = stating(alignment)
    assert codes_of(data) == {code}
    assert codes_of(repaired(data)) == set()
    made = fix(data, io.BytesIO(), unsafe=True)
    assert made.weights.unchanged


@pytest.mark.parametrize("alignment", [64, 4096, 32768, 65536])
def test_large_alignments_that_are_honoured_are_sound(alignment: int) -> None:
    """With so much padding, the sizes of two types that share a number can be padded to the same room."""
    data = Model("bitnet-b1.58").add("general.alignment", ValueType.UINT32, alignment).built()
    assert codes_of(realigned(data, alignment)) == set()


def recoded(model: Model, codes_: tuple[int, int, int, int]) -> Model:
    table = bytes(sum(codes_[byte >> shift & 3] << shift for shift in (0, 2, 4, 6)) for byte in range(256))
    for tensor in model.tensors:
        if tensor.number == I2_S.number:
            tensor.data = tensor.data[:-TAIL].translate(table) + tensor.data[-TAIL:]
    return model


@pytest.mark.parametrize("codes_", [(3, 0, 1, 2), (1, 2, 3, 0)])
def test_small_tensors_have_the_code_map_of_large_ones(codes_: tuple[int, int, int, int]) -> None:
    """A file in a foreign code map is in it throughout: tensors of 8,192 weights too."""
    assert codes_of(recoded(Model("bitnet-b1.58"), codes_).built()) == {"I202"}


def _wrong_type(model: Model) -> None:
    model.set("{arch}.attention.head_count_kv", 2, ValueType.INT32)


def _experts(model: Model) -> None:
    model.add("{arch}.expert_count", ValueType.UINT32, 4)


def _no_vocabulary(model: Model) -> None:
    model.set("{arch}.vocab_size", 0)


def _renamed(model: Model) -> None:
    for pair in model.keys:
        pair.key = pair.key.replace(b"bitnet-b1.58.", b"bitnet-25.")


@pytest.mark.parametrize(
    ("change", "code"), [(_wrong_type, "M003"), (_experts, "M014"), (_no_vocabulary, "M004"), (_renamed, "M018")]
)
def test_consequences_of_a_key_are_not_reported_beside_it(change: Callable[[Model], object], code: str) -> None:
    """Shapes from defaults of existing keys, missing experts, values of misnamed keys."""
    assert codes_of(Model("bitnet-b1.58").changed(change).built()) == {code}


def with_gap(gap: bytes) -> bytes:
    """A model with bytes that are not zero after its first I2_S tensor."""
    data = Model("bitnet-b1.58").built()
    file = File(BufferSource(data))
    first = min((t for t in file.tensors.rows if t.number == I2_S.number), key=lambda tensor: tensor.offset)
    broken = bytearray(data[: first.span.stop] + gap + data[first.span.stop :])
    for tensor in file.tensors.rows:
        if tensor.offset > first.offset:
            at = tensor.info_span.stop - 8
            broken[at : at + 8] = struct.pack("<Q", tensor.offset + len(gap))
    return bytes(broken)


def test_a_gap_after_a_tensor_is_not_taken_for_chunks() -> None:
    """A threaded quantizer leaves the first chunk's scale between codes; foreign bytes behind the tail are a gap."""
    data = with_gap(b"\x77" * 1024)
    assert codes_of(data) == {"P101"}
    assert codes_of(repaired(data)) == set()


def test_removed_tensors_leave_no_gap() -> None:
    """Sub-norms of another architecture stand between matrices: without them the tensors move together."""
    model = Model("llama")
    norm = model.tensor("blk.0.attn_norm.weight")
    model.like("blk.0.attn_sub_norm.weight", norm.ne, "F32")
    model.tensors.insert(model.row("blk.0.ffn_down.weight") + 1, model.tensors.pop())
    assert codes_of(model.built()) == {"M102", "M119"}
    assert codes_of(repaired(model.built())) == set()


def test_a_repair_of_an_id_does_not_remove_the_vocabulary() -> None:
    """Of a vocabulary of one token the defaults are beyond it: no repair, least of all one that drops the tokens."""
    model = Model("bitnet-b1.58").drop("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id")
    model.set("tokenizer.ggml.tokens", array(ValueType.STRING, [b"a"]))
    data = model.built()
    assert "T008" in codes_of(data)
    assert "tokenizer.ggml.tokens" in File(BufferSource(repaired(data))).metadata


def test_an_id_stays_where_its_default_is_no_better() -> None:
    model = Model("bitnet-b1.58")
    model.set("tokenizer.ggml.tokens", array(ValueType.STRING, [b"a"])).set("tokenizer.ggml.bos_token_id", 7)
    after = File(BufferSource(repaired(model.built()))).metadata
    assert "tokenizer.ggml.bos_token_id" in after
    assert "tokenizer.ggml.tokens" in after


def test_only_loaders_that_count_tensors_refuse_one_more() -> None:
    """0xBitNet asks for tensors by name; nothing says that it minds a head that architecture bitnet has not."""
    model = Model("bitnet")
    head = model.tensor("token_embd.weight")
    model.like("output.weight", head.ne, "F16")
    found_ = {each.runtime: each for each in verdicts(LintContext(File(BufferSource(model.built()))))}
    assert found_["bitnet.cpp-2025"].loads == "no"
    assert found_["0xBitNet"].loads == "not tried"


def test_as_many_jobs_as_processors_can_be_configured(tmp_path: object) -> None:
    """0 means so on the command line, and in a file."""
    path = f"{tmp_path}/i2s.toml"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("jobs = 0\n")
    assert found(explicit=path).values["jobs"] == 0


def test_zeros_of_floats_are_not_called_weights_of_minus_one() -> None:
    model = Model("llama").like("token_embd.weight", (128, 16384), "F32")
    head = model.tensor("token_embd.weight")
    head.data = head.data[: 1 << 20] + bytes(2 << 20) + head.data[3 << 20 :]
    said = [finding.message for finding in lint(model.built()).findings if finding.code == "G411"]
    assert len(said) == 1
    assert "I2_S" not in said[0]


def test_architectures_that_are_new_are_not_wrong() -> None:
    """Ollama has some of its own, and llama.cpp new ones every month; of I2_S models all are known. Not checked is said."""

    def named(model: Model) -> bytes:
        for pair in model.keys:
            pair.key = pair.key.replace(b"llama.", b"nobodys.")
        return model.set("general.architecture", b"nobodys").built()

    model = Model("llama").set("general.file_type", 1)
    assert codes_of(named(Model("llama"))) == {"M001"}
    for tensor in Model("llama").tensors:
        if tensor.number == I2_S.number:
            model.like(tensor.name.decode(), tensor.ne, "F16")
    assert [(f.code, f.severity.value) for f in lint(named(model)).findings if f.code not in NOTED] == [
        ("M001", "warning")
    ]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("left_out", [1, 2, 5])
def test_infos_that_are_not_counted_are_found_and_counted(left_out: int, order: ByteOrder) -> None:
    """Nothing is said of payloads, which readers would look for in the wrong place, and the repair gives back the file."""
    sound = Model("bitnet-b1.58", order=order).built()
    (count,) = struct.unpack_from("<Q" if order == "little" else ">Q", sound, 8)
    data = sound[:8] + (count - left_out).to_bytes(8, order) + sound[16:]
    (found,) = (finding for finding in lint(data).findings if finding.rule.severity is Severity.ERROR)
    assert (found.code, found.span) == ("G320", Span(8, 16, "header.tensor_count"))
    assert (found.got, found.want) == (count - left_out, count)
    assert codes_of(data) - {"G320"} <= codes_of(sound)
    assert repaired(data) == sound
    safely = io.BytesIO()
    fix(data, safely)
    assert safely.getvalue() == data


@pytest.mark.parametrize("name", [b"", b"ab", b"a b c", b"\0" * 8, b"x" * 65, b"blk.0.attn_q.weight"])
@pytest.mark.parametrize(
    "behind",
    [
        b"",
        struct.pack("<I", 0),
        struct.pack("<IQIQ", 1, 0, 0, 0),
        struct.pack("<IQIQ", 1, 8, 77, 0),
        struct.pack("<IQIQ", 1, 8, 0, 7),
        struct.pack("<IQI", 1, 8, 0),
    ],
)
def test_bytes_that_only_resemble_a_tensor_info_are_ignored(name: bytes, behind: bytes) -> None:
    file = File(BufferSource(Model("bitnet-b1.58").built()))
    assert file.infos_end is not None
    data = file.source.read(0, file.infos_end) + struct.pack("<Q", len(name)) + name + behind
    assert uncounted(File(BufferSource(data))) is None


def _unpadded(data: bytes, file: File) -> bytes:
    return data[: file.infos_end] + data[file.data_start :]


def _later(data: bytes, file: File) -> bytes:
    return data[: file.data_start] + b"\x5a" * 52 + data[file.data_start :]


def _offsets(data: bytes, file: File, more: int) -> bytes:
    broken = bytearray(data)
    for tensor in file.tensors.rows:
        at = tensor.info_span.stop - 8
        broken[at : at + 8] = (tensor.offset + more).to_bytes(8, file.byte_order)
    return bytes(broken)


def _from_file_start(data: bytes, file: File) -> bytes:
    return _offsets(data, file, file.data_start or 0)


def _from_64(data: bytes, file: File) -> bytes:
    return _offsets(data, file, 64)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    ("change", "shift"), [(_unpadded, -20), (_later, 52), (_from_file_start, -7104), (_from_64, -64)]
)
def test_shifted_data_are_one_fault_and_are_repaired(
    change: Callable[[bytes, File], bytes], shift: int, order: ByteOrder
) -> None:
    sound = next(
        data
        for fill in range(1, 33)
        if (data := Model("bitnet-b1.58", order=order).set("general.name", b"n" * fill).built())
        and (File(BufferSource(data)).infos_end or 0) % 32 == 12
    )
    data = change(sound, File(BufferSource(sound)))
    (found,) = (finding for finding in lint(data).findings if finding.rule.severity is Severity.ERROR)
    assert (found.code, found.got - found.want) == ("G414", shift)
    assert codes_of(data) - {"G414"} <= codes_of(sound)
    assert repaired(data) == sound
    assert fix(data, io.BytesIO(), unsafe=True).weights.unchanged


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_file_that_ends_early_is_not_taken_for_a_shifted_one(cut: int) -> None:
    assert "G414" not in codes_of(Model("bitnet-b1.58").built()[:-cut])


@pytest.mark.parametrize("more", [1, 20, 32, 64, 4096])
def test_bytes_behind_the_data_are_not_taken_for_a_shift(more: int) -> None:
    assert codes_of(Model("bitnet-b1.58").built() + b"\x11" * more) == {"G407"}


def test_a_shift_is_found_without_ternary_weights() -> None:
    """Floats that lie 64 bytes later are floats too; norms show where they begin and end."""
    model = Model("llama").drop("tokenizer.chat_template")
    for tensor in model.tensors:
        if tensor.number == I2_S.number:
            model.like(tensor.name.decode(), tensor.ne, "F16")
    data = model.built()
    start = File(BufferSource(data)).data_start
    moved = data[:start] + bytes(64) + data[start:]
    assert codes_of(moved) == {"G414"} | codes_of(data)
    assert repaired(moved) == repaired(data)


def decoded(data: bytes, how: str) -> bytes:
    return (data.decode("utf-8", "replace") if how == "utf-8" else data.decode(how)).encode()


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama", "qwen3"])
def test_a_file_that_was_text_is_one_fault_to_every_reader(architecture: str, order: ByteOrder) -> None:
    sound = Model(architecture, order=order).built()
    for how in ("utf-8", "latin-1"):
        data = decoded(sound, how)
        assert codes_of(data) == {"G009"}
        fault = File(BufferSource(data)).fault
        assert fault is not None
        assert fault.code == "G009"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        assert codes_of(sound.decode("latin-1").encode(encoding)) == {"G010"}


def test_a_file_whose_header_is_ascii_was_text_by_its_weights() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = (
        [tensor_info(b"a", (8, 4), 0, 0)],
        struct.pack("<32f", *(-1.1 * i for i in range(32))),
    )
    data = draft.built(file)
    assert codes_of(data) == set()
    assert codes_of(decoded(data, "utf-8")) == codes_of(decoded(data, "latin-1")) == {"G009"}


def test_a_damaged_file_with_a_vocabulary_of_many_scripts_was_not_text() -> None:
    """Tokens are UTF-8, one of them may be U+FFFD, and bytes that are not text are anywhere else."""
    tokens = [chr(0x400 + i).encode() for i in range(300)] + [b"\xef\xbf\xbd"] * 20
    model = Model("bitnet-b1.58").set("tokenizer.ggml.tokens", array(ValueType.STRING, tokens))
    data = model.built()
    assert "G009" not in codes_of(data)
    (end,) = (pair.value_span.stop for pair in (File(BufferSource(data)).metadata.entry("tokenizer.ggml.tokens"),))
    assert "G009" not in codes_of(data[: end - 10])
    assert "G009" not in codes_of(data[: end + 100] + b"\xff" * 64)


def test_text_of_many_scripts_is_not_what_a_decoder_leaves() -> None:
    """A cut vocabulary is UTF-8 to its end; its tokens are letters, and one may be U+FFFD."""
    letters = "".join(chr(0x400 + i) for i in range(300))
    assert utf8_damage(BufferSource(b"GGUF" + f"{letters}{chr(0xFFFD) * 20}".encode())) is None
    assert utf8_damage(BufferSource(b"GGUF" + f"{letters}{chr(0xFFFD) * 200}".encode())) is not None
    assert utf8_damage(BufferSource(b"GGUF" + chr(0xFFFD).encode() * 15)) is None
    # Windows may split characters at their edges; this must not change the result.
    assert utf8_damage(BufferSource(b"GGUF" + b"a" * 65_533 + chr(0xFFFD).encode() * 20_000)) is not None
    assert utf8_damage(BufferSource(b"GGUF" + chr(0xFFFD).encode() * 60_000 + b"\xff")) is None
