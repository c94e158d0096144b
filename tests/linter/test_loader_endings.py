"""How loaders end on models whose header is accepted: our results against a build of the fork at 0f0e7dae."""

from __future__ import annotations

import re

import pytest
from builders import model_bytes
from construct import Container
from malformed_cases import CASES, broken

from i2s_spec.convert.convert_file import advice
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.runtimes.records import citation
from i2s_spec.linter.runtimes.verdicts import Verdict, verdicts
from i2s_spec.model.tokenizer.byte_level import PRE_TOKENIZERS
from i2s_spec.schema import container
from i2s_spec.schema.keys import MODEL
from i2s_spec.schema.runtimes import RUNTIMES
from i2s_spec.schema.types import BY_NAME
from i2s_spec.testing.sample import Draft, Model

#: How the recorded build ended with each broken copy: it refused the file, crashed, or computed a token.
RECORDED = {
    "pre_unknown": "no", "pre_falcon_e": "yes", "bos_i32": "no", "rope_scaling_other": "crash", "experts_unused": "crash",
    "merge_empty": "crash", "token_twice": "crash", "one_token": "crash", "context_length_0": "yes",
    "rope_base_inf": "yes", "rope_base_negative": "yes", "nt_huge": "no", "key_len_huge": "crash",
    "file_type_i32": "crash", "tokens_of_bytes": "crash", "block_count_0": "crash", "eps_0": "crash", "eps_nan": "crash",
    "tensor_ceiling": "no", "ndims0": "crash", "no_tokenizer_model": "no", "no_merges": "no", "block_count_i32": "no",
}  # fmt: skip

#: Descendants of llama.cpp that compare the name of the pre-tokenizer with their own list.
FAMILY = ("bitnet.cpp-2024", "bitnet.cpp-2025", "bitnet.cpp-2026", "ik_llama.cpp")


def of(data: bytes) -> dict[str, Verdict]:
    with File(BufferSource(data)) as file:
        return {verdict.runtime: verdict for verdict in verdicts(LintContext(file, None, Reading("none")))}


@pytest.mark.parametrize("name", RECORDED)
def test_the_loader_of_2025_ends_as_recorded(name: str) -> None:
    verdict = of(broken(name))["bitnet.cpp-2025"]
    assert verdict.loads == RECORDED[name], [reason.text for reason in verdict.reasons]


def test_every_ending_cites_a_line() -> None:
    for runtime in RUNTIMES:
        names, source = runtime.pre_unknown
        sources = [ending.source for _, ending in runtime.endings] + [source] * bool(names)
        sources += [source for *_, source in runtime.required]
        for source in sources:
            assert citation(source)["kind"] == "source"  # type: ignore[index]


@pytest.mark.parametrize("pre", ["llama-bpe3", "x"])
def test_a_pre_tokenizer_that_t010_names_is_loaded_by_nobody_of_the_family(pre: str) -> None:
    found = of(Model("llama").set("tokenizer.ggml.pre", pre.encode()).built())
    assert {found[name].loads for name in FAMILY} == {"no"}
    assert f"unknown pre-tokenizer type: '{pre}'" in found["bitnet.cpp-2025"].reasons[0].text


def test_runtimes_that_know_falcon_e() -> None:
    found = of(broken("pre_falcon_e"))
    assert [found[name].loads for name in FAMILY] == ["no", "yes", "no", "no"]


@pytest.mark.parametrize(("pre", "said"), [("falcon3", True), ("falcon_e", True), ("llama-bpe", False)])
def test_falcon_without_a_first_token(pre: str, said: bool) -> None:
    """The fork adds no first token where the file does not say; llama.cpp does, and has no falcon_e."""
    model = Model("llama").set("tokenizer.ggml.pre", pre.encode()).drop("tokenizer.ggml.add_bos_token")
    texts = " ".join(reason.text for reason in of(model.built())["bitnet.cpp-2025"].reasons)
    assert ("no first token to texts" in texts) == said
    adds = {each.name: each.add_bos for each in PRE_TOKENIZERS}
    assert (adds["falcon3"], adds["falcon_e"]) == (True, False)


def test_verdicts_of_ik_llama_cpp_on_embedding_models() -> None:
    qwen = of(model_bytes("qwen3"))["ik_llama.cpp"]
    assert (qwen.loads, "wrong number of tensors" in qwen.reasons[0].text) == ("no", True)
    gemma = of(model_bytes("gemma3", as_published=True))["ik_llama.cpp"]
    assert (gemma.loads, "gemma3.attention.sliding_window is missing" in gemma.reasons[0].text) == ("no", True)
    assert of(model_bytes("qwen3-lm", embd=512, ff=512))["ik_llama.cpp"].loads == "with option"


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0"])
def test_ik_llama_cpp_dies_of_types_that_it_lacks(kind: str) -> None:
    """Numbers 34 and 35 are not in its list: it divides by the size of a block of none, and ends by SIGFPE."""
    verdict = of(model_bytes("llama", type=kind, embd=256, ff=512))["ik_llama.cpp"]
    assert verdict.loads == "crash", [reason.text for reason in verdict.reasons]
    assert f"it does not know tensor type {BY_NAME[kind].number}" in verdict.reasons[0].text


def test_requantizing_keeps_the_embedding() -> None:
    option = "--token-embedding-type f16"
    reason = of(model_bytes("llama"))["ik_llama.cpp"].reasons[0]
    assert (reason.effect, option in reason.text) == ("option", True)
    assert option in advice({"I2_S"}, "llama", None, None)[0]


def test_nobody_reads_the_activation() -> None:
    """`convert --arch bitnet --hidden-activation relu2` makes what llama.cpp loads and computes with SiLU."""
    notes = " ".join(advice({"Q2_0"}, "bitnet", "relu2", None))
    assert "SiLU, whatever bitnet.hidden_activation says" in notes
    key = next(key for key in MODEL if key.name.endswith(".hidden_activation"))
    assert re.search(r"no released runtime reads it", key.note)


def test_a_value_that_is_tolerated_does_not_hide_another_fault() -> None:
    def change(file: Container) -> None:
        for pair in file.key_values:
            if pair.key.endswith(b".context_length"):
                pair.value = 0
        file.key_values = [pair for pair in file.key_values if not pair.key.endswith(b".embedding_length")]

    file = container.parse(model_bytes("llama"))
    change(file)
    verdict = of(Draft().built(file))["bitnet.cpp-2025"]
    assert (verdict.loads, "embedding_length is missing" in verdict.reasons[0].text) == ("no", True)


def test_the_recorded_copies_exist() -> None:
    assert set(RECORDED) <= set(CASES)
