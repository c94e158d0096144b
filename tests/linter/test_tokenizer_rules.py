"""Rules on vocabularies: their counts, their spans, and the time that a large vocabulary takes."""

from __future__ import annotations

import pytest
from finding_codes import codes, codes_of
from pace import units

from i2s_spec.gguf import strings
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Finding
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import NOTED, Model, array

TOKENS, MERGES, TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"


def only(model: Model, code: str) -> Finding:
    data = model.built()
    [finding] = [each for each in lint(data).findings if each.code not in NOTED]
    assert finding.code == code, finding.message
    return finding


def shown(model: Model, finding: Finding) -> bytes:
    return model.built()[finding.span.start : finding.span.stop]


@pytest.mark.parametrize("order", ["little", "big"])
def test_spans_are_those_of_the_tokens(order: str) -> None:
    model = Model("llama", "big" if order == "big" else "little")
    model.items(TOKENS)[200] = b"A"
    model.items(TOKENS)[201] = b"A"
    data = model.built()
    [finding] = [finding for finding in lint(data).findings if finding.code == "T006"]
    assert data[finding.span.start : finding.span.stop] == b"A"
    assert finding.details["second"] == 200
    assert model.items(TOKENS).index(b"A") == finding.details["first"]


def test_counts_and_the_first_one() -> None:
    model = Model("llama")
    merges = model.items(MERGES)
    merges[1], merges[2], merges[4] = b"ab", b" a", b"a "
    finding = only(model, "T003")
    assert (finding.got, finding.details["index"]) == (3, 1)
    assert shown(model, finding) == b"ab"


@pytest.mark.parametrize("name", ["tokenizer.ggml.scores", TYPES])
@pytest.mark.parametrize("change", [-1, 1])
def test_arrays_of_other_lengths_than_the_vocabulary(name: str, change: int) -> None:
    model = Model("bitnet")
    items = model.items(name)
    items[:] = items[:change] if change < 0 else [*items, items[-1]]
    assert only(model, "T004").got == 272 + change


def test_special_tokens_beyond_the_vocabulary() -> None:
    model = Model("llama").set("tokenizer.ggml.bos_token_id", 272).set("tokenizer.ggml.eos_token_id", 2**32 - 1)
    assert [finding.code for finding in lint(model.built()).findings] == ["T008", "T008"]
    last = lint(Model("llama").set("tokenizer.ggml.bos_token_id", 271).built())
    assert codes(last) == {"T019"}  # the end-of-turn token


@pytest.mark.parametrize("pre", ["llama-bpe", "default", "qwen2", "falcon3", "gpt-2"])
def test_known_pre_tokenizers(pre: str) -> None:
    assert codes_of(Model("llama").set("tokenizer.ggml.pre", pre.encode()).built()) == set()


@pytest.mark.parametrize(
    ("pre", "code"), [("falcon_e", "T011"), ("kimi-k2", "T011"), ("Llama-BPE", "T010"), ("x", "T010")]
)
def test_other_pre_tokenizers(pre: str, code: str) -> None:
    only(Model("llama").set("tokenizer.ggml.pre", pre.encode()), code)


def test_a_sentence_piece_vocabulary_needs_no_pre_tokenizer() -> None:
    assert lint(Model("bitnet").drop("tokenizer.ggml.pre").built()).findings == ()


def test_a_model_may_state_that_it_has_no_vocabulary() -> None:
    model = Model("llama").set("tokenizer.ggml.model", b"no_vocab").drop(TOKENS, MERGES, TYPES)
    assert lint(model.built()).findings == ()


def test_empty_tokens_are_not_duplicates() -> None:
    model = Model("llama")
    model.items(TOKENS)[262:266] = [b""] * 4
    assert only(model, "T007").got == 4


def test_byte_tokens_are_asked_for_by_type() -> None:
    model = Model("bitnet")
    at = model.items(TOKENS).index(b"<0x41>")
    model.items(TOKENS)[at] = b"<0x4_>"
    finding = only(model, "T017")
    assert shown(model, finding) == b"<0x4_>"
    model.items(TYPES)[at] = 1
    assert lint(model.built()).findings == ()


def test_text_from_the_file_is_escaped() -> None:
    model = Model("llama")
    model.items(TOKENS)[264] = model.items(TOKENS)[265] = b"\x1b[31m\xff"
    report = lint(model.built())
    assert codes(report) == {"T006", "G216"}
    assert all(finding.message.isprintable() for finding in report.findings)


@pytest.mark.parametrize("key", [TOKENS, MERGES, TYPES, "tokenizer.ggml.scores"])
@pytest.mark.parametrize("kind", [ValueType.STRING, ValueType.FLOAT64, ValueType.INT8])
def test_arrays_of_another_type(key: str, kind: ValueType) -> None:
    model = Model("bitnet" if key == "tokenizer.ggml.scores" else "llama")
    items = [b"x"] * 272 if kind == ValueType.STRING else [1] * 272
    model.set(key, array(kind, items), ValueType.ARRAY)
    report = lint(model.built())
    if not (kind == ValueType.STRING and key in (TOKENS, MERGES)):
        assert {finding.code for finding in report.findings} >= {"M003"}


def test_large_vocabularies_take_linear_time() -> None:
    model = Model("llama")
    model.items(TOKENS)[:] = [b"token%d" % i for i in range(200_000)]
    model.items(MERGES)[:] = [b"a%d b%d" % (i, i) for i in range(200_000)]
    data = model.built()
    lint(data[:1000])
    assert units(lambda: lint(data)) < 250  # about 3; a quadratic search takes thousands
    report = lint(data)
    assert {"T012", "T004", "M105"} <= {finding.code for finding in report.findings}


@pytest.mark.parametrize("kept", [0, 1, strings.MARKED])
def test_markers_are_found_however_many_are_kept(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the walk over the tokens kept too few of them, those of the template are searched by another walk."""
    monkeypatch.setattr(strings, "MARKED", kept)
    model = Model("llama").set("tokenizer.chat_template", b"{{ 'a' }}<|start_header_id|>{{ 'b' }}<|eot_id|>")
    assert only(model, "T020").details["count"] == 1
    tokens = model.items(TOKENS)
    tokens[tokens.index(b"<|eot_id|>") - 1] = b"<|start_header_id|>"
    assert "T020" not in codes_of(model.built())


def test_a_list_of_every_split_of_each_token_is_in_order() -> None:
    """As vocabularies that were made from tiktoken's have it; most of these merges never apply."""
    words = [b"ab" * 2**i for i in range(7)] + [b"ab" * 2**i + b"c" for i in range(7)]
    words.sort(key=len)
    known = {*words, b"a", b"b", b"c"}
    splits = [
        word[:at] + b" " + word[at:] for word in words for at in range(1, len(word)) if {word[:at], word[at:]} <= known
    ] + [b"abab c", b"aba b"]  # the second one never applies, and another merge makes its result
    for change, code in ((slice(None), set()), (slice(None, None, -1), {"T021"}), (slice(3, None), {"T021"})):
        model = Model("llama")
        model.items(MERGES).extend(splits[change])
        assert codes_of(model.built()) == code
        model.set("tokenizer.ggml.model", b"gemma4")  # joins by merges, too
        assert ("T021" in codes_of(model.built())) == bool(code)
