"""A sanitized file contains only known parts, in a single possible arrangement, with the same weights."""

from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path

import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, broken

from i2s_spec.compare.hash import hash as identity
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.sanitize import Sanitized, sanitize
from i2s_spec.schema.types import ValueType, padded
from i2s_spec.testing.sample import Draft, Model, array, key_value


def cleaned(data: bytes, **options: bool) -> tuple[bytes, Sanitized]:
    out = io.BytesIO()
    done = sanitize(data, out, **options)  # type: ignore[arg-type]
    return out.getvalue(), done


def weights(data: bytes) -> str:
    return identity(open_file(data)).weights


def held(data: bytes, **options: bool) -> None:
    """The laws: the same weights, laid out without a byte too many, and again the same."""
    out, done = cleaned(data, **options)
    assert done.renamed or weights(out) == weights(data) == done.weights
    assert cleaned(out, **options)[0] == out
    assert cleaned(data, **options)[0] == out
    assert done.size == len(out)
    file = open_file(out)
    assert file.alignment == 32
    end = 0
    for tensor in file.tensors.rows:
        assert tensor.offset == end
        end += padded(tensor.nbytes, 32)
        if tensor.type is not None and tensor.type.name == "I2_S":
            assert tensor.tail[4:] == bytes(28)
    assert file.data_start is None or file.index.tensors == 0 or len(out) == file.data_start + end
    left = {finding.code for finding in lint(out, payload="none").findings}
    assert not left & {
        "G205",
        "G206",
        "G215",
        "G221",
        "G305",
        "G403",
        "G406",
        "G407",
        "G408",
        "P101",
        "P102",
        "P103",
        "S107",
    }


@pytest.mark.filterwarnings("ignore::i2s_spec.errors.ReadOnWarning")  # of the broken copy
@pytest.mark.parametrize("name", share((name for name, case in CASES.items() if not case.large), every=8))
def test_broken_copies_are_understood_or_refused(name: str) -> None:
    data = broken(name)
    for options in ({"keep_unknown": True}, {}):
        try:
            cleaned(data, **options)
        except FormatError as error:
            findings = {finding.code for finding in lint(data, payload="none").findings}
            assert error.code in findings  # noqa: PT017 - which files are refused is what is to be seen
        except ValueError as error:
            assert "not known" in str(error)  # noqa: PT017
        else:
            held(data, **options)


def test_every_refusal_is_a_rule() -> None:
    ambiguous = [rule for rule in REGISTRY.values() if rule.ambiguous]
    assert len(ambiguous) == 31
    assert all(rule.check is not None for rule in ambiguous)


def test_real_files(shared: Path) -> None:
    seen = 0
    for path in (*shared.glob("vectors/gguf/*.gguf"), *shared.glob("real/*.gguf")):
        data = path.read_bytes()
        if File(BufferSource(data)).fault is not None or "CORRUPT" in path.name:
            with pytest.raises(FormatError):
                sanitize(data)
            continue
        try:
            held(data, keep_unknown=True)
        except FormatError as error:  # a vocabulary of one string
            assert (error.code, path.name[:9]) == ("M003", "bitnet-rs")  # noqa: PT017
            continue
        seen += 1
    assert seen >= 7


def test_keys_under_a_foreign_name_are_not_thrown_away() -> None:
    model = Model("bitnet-b1.58")
    pair = model.pair("{arch}.block_count")
    pair.key = b"bitnet-25.block_count"
    data = model.built()
    with pytest.raises(FormatError) as caught:
        sanitize(data)
    assert caught.value.code == "M018"
    held(data, keep_unknown=True)


def test_a_tail_that_holds_weights_is_not_cleared() -> None:
    model = Model("bitnet").like("blk.0.attn_q.weight", (100, 10), "I2_S")
    tensor = model.tensor("blk.0.attn_q.weight")
    tensor.data = tensor.data[:-28] + bytes(range(28))
    with pytest.raises(FormatError, match="not a multiple of 128"):
        sanitize(model.built())


def test_a_sound_model_stays_as_it_is() -> None:
    data = Model("bitnet-b1.58").built()
    out, done = cleaned(data)
    assert out == data
    assert done.left_out == ()


def test_everything_hidden_is_left_out_and_listed() -> None:
    model = Model("llama")
    model.add("secret.text", ValueType.STRING, b"hidden")
    model.set("general.name", "na\x1b[31mme\u202e \x9bend".encode())
    tensor = next(tensor for tensor in model.tensors if tensor.number == 36)
    tensor.data = tensor.data[:-28] + b"leftovers".ljust(28, b"!")
    data = model.built()
    file = open_file(data)
    assert file.infos_end is not None
    assert file.data_start is not None
    if file.infos_end < file.data_start:
        data = data[: file.infos_end] + b"P" * (file.data_start - file.infos_end) + data[file.data_start :]
    data += b"PK\x03\x04" + bytes(100)
    out, done = cleaned(data)
    for secret in (b"hidden", b"secret", b"leftovers", b"PK\x03\x04", b"PPP", b"\x1b[31m"):
        assert secret in data
        assert secret not in out
    assert open_file(out).metadata["general.name"] == "na[31mme end"
    paths = [each.span.path for each in done.left_out]
    assert [path.partition("[")[0] for path in paths] == ["key_values", "key_values", "padding", "data", "trailing"]
    held(data)


def test_unknown_keys_are_kept_on_request() -> None:
    data = Model("llama").add("other.key", ValueType.UINT8, 1).add("other.\xe4", ValueType.UINT8, 1).built()
    assert "other.key" not in open_file(cleaned(data)[0]).metadata
    kept = open_file(cleaned(data, keep_unknown=True)[0]).metadata
    assert "other.key" in kept
    assert "other.\xe4" not in kept


def test_the_template_goes_on_request() -> None:
    data = (
        Model("llama")
        .drop("tokenizer.chat_template")
        .add("tokenizer.chat_template", ValueType.STRING, b"{{x}}")
        .built()
    )
    assert open_file(cleaned(data)[0]).metadata["tokenizer.chat_template"] == "{{x}}"
    out, done = cleaned(data, drop_template=True)
    assert "tokenizer.chat_template" not in open_file(out).metadata
    assert any("as requested" in each.what for each in done.left_out)
    for options in ({"drop_template": True}, {}):
        held(data, **options)


@pytest.mark.parametrize(
    ("key", "template", "code"),
    [
        ("tokenizer.chat_template", "{{ x.__class__ }}", "S201"),
        ("tokenizer.chat_template.tool_use", "{% for i in range(10**9) %}{% endfor %}", "S202"),
        ("tokenizer.chat_template", "{{ x }}" + " " * (1 << 18), "S211"),
        ("other.chat_template", "{{ x.__class__ }}", "S201"),
        ("tokenizer.huggingface.json", json.dumps({"chat_template": "{{ x.__class__ }}"}), "S201"),
    ],
)
def test_templates_with_errors_are_left_out(key: str, template: str, code: str) -> None:
    data = Model("llama").drop("tokenizer.chat_template").add(key, ValueType.STRING, template.encode()).built()
    out, done = cleaned(data, keep_unknown=True)
    assert key not in open_file(out).metadata
    assert [each.what for each in done.left_out if code in each.what]
    assert not [each for each in lint(out, profile="security").findings if each.severity is Severity.ERROR]


def test_tokens_are_left_as_they_are() -> None:
    model = Model("llama")
    model.items("tokenizer.ggml.tokens")[7] = b"\x1b\x00\xff"
    out = open_file(cleaned(model.built())[0])
    assert out.metadata["tokenizer.ggml.tokens"][7] == "\x1b\x00\udcff"


def test_odd_booleans_become_plain() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[4].value = 9
    file.key_values[7].value = array(ValueType.BOOL, [0, 255, 1])
    metadata = open_file(cleaned(draft.built(file), keep_unknown=True)[0]).metadata
    assert metadata["sample.flag"] is True
    assert metadata["sample.flags"] == [False, True, True]


def test_other_alignments_and_orders_are_laid_out_anew() -> None:
    for name in ("align4", "align_2p17", "gap", "out_of_order"):
        data = broken(name)
        out, done = cleaned(data, keep_unknown=True)
        assert "general.alignment" not in open_file(out).metadata, name
        assert len(out) < 1000
        assert lint(out).findings == (), name
        assert done.weights == weights(out)


def test_a_needed_key_of_another_type_is_refused_and_others_go() -> None:
    with pytest.raises(FormatError, match="M003"):
        sanitize(Model("llama").set("llama.block_count", 1, ValueType.UINT64).built())
    data = Model("llama").set("general.name", 7, ValueType.UINT32).built()
    assert "general.name" not in open_file(cleaned(data)[0]).metadata


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(ValueError, match="architecture 'sample' are not known; --keep-unknown"):
        sanitize(Draft().data)
    held(Draft().data, keep_unknown=True)


def test_big_endian_files_stay_big_endian() -> None:
    data = Model("llama", "big").built()
    held(data)
    assert open_file(cleaned(data)[0]).byte_order == "big"


def test_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Model("llama").built() + b"surplus")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="another name"):
        sanitize(path, path, force=True)
    done = sanitize(path, tmp_path / "b.gguf")
    assert done.written
    assert (tmp_path / "b.gguf").read_bytes() == Model("llama").built()
    with pytest.raises(FileExistsError):
        sanitize(path, tmp_path / "b.gguf")
    sanitize(path, tmp_path / "b.gguf", force=True)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sanitize(path, tmp_path / "c.gguf", progress=interrupt)
    with pytest.raises(FormatError):
        sanitize(b"GGUF", tmp_path / "c.gguf")
    assert not sanitize(path).written
    assert sorted(os.listdir(tmp_path)) == ["a.gguf", "b.gguf"]
    assert path.read_bytes() == before


@given(
    st.lists(st.text(max_size=12), max_size=4),
    st.binary(min_size=28, max_size=28) | st.just(b"\1" + bytes(27)),
    st.binary(max_size=80),
    st.sampled_from(["llama", "bitnet", "qwen3", "gemma3"]),
)
@examples(25)
def test_nothing_of_what_is_hidden_is_left(texts: list[str], tail: bytes, behind: bytes, architecture: str) -> None:
    model = Model(architecture)
    for i, text in enumerate(texts):
        model.add(f"hidden.{i}", ValueType.STRING, text.encode("utf-8", "ignore"))
    for tensor in model.tensors:
        if tensor.number == 36:
            tensor.data = tensor.data[:-28] + tail
    sound = Model(architecture)
    for tensor in sound.tensors:
        if tensor.number == 36:
            tensor.data = tensor.data[:-28] + bytes(28)
    assert cleaned(model.built() + behind)[0] == cleaned(sound.built())[0]


def test_sizes_are_used_only_if_they_are_certain() -> None:
    draft = Draft()
    file = draft.records()
    for info in file.tensor_infos[1:]:
        info.offset += 32
    data = draft.built(file)
    shifted = data[:-320] + struct.pack("<8f", *[9.0] * 8) + data[-320:]
    out, done = cleaned(shifted, keep_unknown=True)
    assert out == Draft().data
    assert [each.size for each in done.left_out] == [32]
    # After an I2_S tensor, the same bytes may belong to a payload that was written in two parts.
    file = draft.records()
    file.tensor_infos[2].offset += 32
    data = draft.built(file)
    with pytest.raises(FormatError, match="I108"):
        sanitize(data[:-160] + struct.pack("<8f", *[9.0] * 8) + data[-160:], keep_unknown=True)
    file = draft.records()
    file.key_values.append(key_value(b"general.name", ValueType.STRING, b"again"))
    with pytest.raises(FormatError, match="G203"):
        sanitize(draft.built(file), keep_unknown=True)


def test_lists_of_text_are_cleaned_too() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[5].value["items"] = [b"\xff\xfe", b"a\0b", "line\nend\u202e".encode()]
    out, done = cleaned(draft.built(file), keep_unknown=True)
    assert open_file(out).metadata["sample.words"] == ["", "ab", "line\nend"]
    assert [each.size for each in done.left_out] == [6]
    held(draft.built(file), keep_unknown=True)
