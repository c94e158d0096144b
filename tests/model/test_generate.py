"""Generation, conversations and perplexity, on a synthetic arithmetic model and on small real ones."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.load import load_model
from i2s_spec.model.text.chat import FORMATS, Conversation
from i2s_spec.model.text.generate import Generation, rate, together
from i2s_spec.model.text.perplexity import chunks, log_likelihoods, perplexity
from i2s_spec.model.text.sampling import Sampler, Sampling
from i2s_spec.model.tokenizer.tokenizer import Tokenizer, load_tokenizer

VOCAB = 50


class Cache:
    def __init__(self, length: int) -> None:
        self.length = length
        self.tokens: list[int] = []

    @property
    def used(self) -> int:
        return len(self.tokens)

    def reach(self, used: int) -> int:
        return used

    def cut(self, used: int) -> None:
        del self.tokens[used:]


class Arithmetic:
    """The next token is a function of all the tokens so far: a model, as far as generation can tell."""

    context_length = 64

    def __init__(self, vocab: int = VOCAB) -> None:
        self.vocab_size = vocab
        self.seen: list[list[int]] = []
        self.batches: list[int] = []

    def new_cache(self, length: int) -> Cache:
        return Cache(length)

    def row(self, tokens: Sequence[int]) -> Any:
        state = 7
        for token in tokens:
            state = (state * 31 + token + 1) % 1009
        return np.float32([(state * (i + 3)) % 101 / 10 for i in range(self.vocab_size)])

    def forward(self, tokens: Any, *, cache: Cache, logits: str = "all", progress: Any = None) -> Any:
        self.seen.append(list(tokens))
        assert cache.used + len(tokens) <= cache.length <= self.context_length
        rows = []
        for token in tokens:
            cache.tokens.append(int(token))
            rows.append(self.row(cache.tokens))
        if progress is not None:
            progress(len(tokens), len(tokens))
        return SimpleNamespace(logits=np.stack(rows[-1:] if logits == "last" else rows))

    def forward_batch(self, prompts: Any, caches: Any, *, logits: str = "all") -> Any:
        self.batches.append(len(prompts))
        return [self.forward(tokens, cache=cache) for tokens, cache in zip(prompts, caches, strict=True)]

    def said(self, prompt: Sequence[int], count: int) -> list[int]:
        """What must come, without any cache."""
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(np.argmax(self.row(tokens))))
        return tokens[len(prompt) :]


def test_tokens_come_one_by_one_and_the_prompt_goes_in_once() -> None:
    model = Arithmetic()
    generation = Generation(model, [1, 2, 3], limit=5)
    assert model.seen == []  # generation is lazy
    assert list(generation) == model.said([1, 2, 3], 5)
    assert model.seen == [[1, 2, 3], *([token] for token in generation.tokens[:4])]
    assert (generation.reason, generation.reused) == ("limit", 0)
    assert generation.prefill_seconds > 0
    assert generation.decode_seconds > 0


def test_generations_run_together_as_they_run_alone() -> None:
    model = Arithmetic()
    third = model.said([1], 3)[2]
    drawn = Sampling(temperature=3, seed=5)

    def every() -> list[Generation]:
        return [
            Generation(model, [1, 2, 3], limit=5), Generation(model, [1], ends={third}), Generation(model, [4] * 60),
            Generation(model, [7], limit=0), Generation(model, [5, 6], drawn, limit=9), Generation(model, [8], limit=1),
        ]  # fmt: skip

    alone = every()
    for each in alone:
        list(each)
    model.seen.clear()
    batch = every()
    arrived = list(together(batch))
    assert [each.tokens for each in batch] == [each.tokens for each in alone]
    assert [each.reason for each in batch] == [each.reason for each in alone]
    assert [[t for number, t in arrived if number == i] for i in range(6)] == [each.tokens for each in alone]
    assert model.batches == [sum(len(each.tokens) > step for each in batch) for step in range(1, 9)]
    assert all(each.decode_seconds > 0 for each in batch if len(each.tokens) > 1)


def test_generations_that_share_something_do_not_run_together() -> None:
    model, sampler = Arithmetic(), Sampler(Sampling())
    cache: Any = model.new_cache(64)
    assert list(together([])) == []
    for pair in (
        [Generation(model, [1], sampler), Generation(model, [2], sampler)],
        [Generation(model, [1], cache=cache), Generation(model, [2], cache=cache)],
        [Generation(model, [1]), Generation(Arithmetic(), [2])],
    ):
        with pytest.raises(SettingError, match="together"):
            next(together(pair))


@pytest.mark.parametrize("numerics", ["fast", "bitnet-golden-1", "llamacpp-2026"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_generates_together_what_it_generates_alone(numerics: str, threads: int) -> None:
    """Prompts of all lengths, some of which end early; drawn tokens too. Bit for bit, or drawn tokens would part."""
    out = io.BytesIO()
    new(out, "bitnet-b1.58", layers=2, seed=3, context=512)
    model = load_model(out.getvalue(), numerics, threads=threads)
    prompts = [[1], [5, 6, 7], list(range(250)), list(range(100, 160)), [9] * 3, [2, 3], [4], [8] * 40]

    def every() -> list[Generation]:
        return [
            Generation(model, prompt, Sampling(temperature=float(i % 3), seed=i), limit=12 - i, ends={i * 31})
            for i, prompt in enumerate(prompts)
        ]

    alone, batch = every(), every()
    for each in alone:
        list(each)
    for _ in together(batch):
        pass
    assert [(each.tokens, each.reason) for each in batch] == [(each.tokens, each.reason) for each in alone]
    for one, other in zip(alone, batch, strict=True):
        assert one.cache is not None
        assert other.cache is not None
        assert one.cache.tokens == other.cache.tokens


def test_an_end_token_ends_and_is_the_last() -> None:
    model = Arithmetic()
    third = model.said([1], 3)[2]
    generation = Generation(model, [1], ends={third})
    tokens = list(generation)
    assert tokens[-1] == third
    assert third not in tokens[:-1]
    assert generation.reason == "end"


def test_the_context_ends_it() -> None:
    model = Arithmetic()
    generation = Generation(model, [1] * 60)
    assert len(list(generation)) == 4
    assert generation.reason == "context"
    assert len(list(Generation(model, [1] * 64))) == 0 or generation.reason == "context"
    short = Generation(model, [1, 2], room=5)
    assert len(list(short)) == 3
    assert short.reason == "context"


def test_a_prompt_that_fills_the_context_still_has_a_next_token() -> None:
    generation = Generation(Arithmetic(), [1] * 64, limit=9)
    assert len(list(generation)) == 1
    assert generation.reason == "context"


def test_no_tokens_are_computed_if_none_are_requested() -> None:
    model = Arithmetic()
    generation = Generation(model, [1], limit=0)
    assert list(generation) == []
    assert (generation.reason, model.seen) == ("limit", [])


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        ([], {}, "the prompt is empty"),
        ([1, 50], {}, "token 1 of the prompt is 50; this model has tokens 0 to 49"),
        ([-1], {}, "token 0 of the prompt is -1"),
        ([1] * 65, {}, "the prompt has 65 tokens; there is room for 64"),
        ([1] * 9, {"room": 8}, r"room for 8 \(the model's context is 64\)"),
        ([1], {"limit": -1}, "limit=-1"),
        ([1], {"room": 65}, "65 tokens are requested in all; the model's context is 64"),
    ],
)
def test_invalid_requests_are_refused(prompt: list[int], options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Generation(Arithmetic(), prompt, **options)


@given(
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20),
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20),
)
@examples(60)
def test_a_cache_does_not_change_the_tokens(first: list[int], second: list[int]) -> None:
    model, cache = Arithmetic(), Cache(64)
    assert list(Generation(model, first, limit=3, cache=cache)) == model.said(first, 3)
    generation = Generation(model, second, limit=3, cache=cache)
    assert list(generation) == model.said(second, 3)
    assert generation.reused < len(second)


def test_sampling_is_reproducible() -> None:
    model = Arithmetic()
    drawn = [list(Generation(model, [1, 2], Sampling(1.0, seed=seed), limit=12)) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_rate_is_tokens_per_second() -> None:
    assert (rate(10, 2.0), rate(3, 0.0)) == (5.0, 0.0)


# Conversations.


def words(architecture: str = "bitnet-b1.58", **options: Any) -> Tokenizer:
    target = io.BytesIO()
    new(target, architecture, layers=1, **options)
    return load_tokenizer(open_file(target.getvalue()))


class Spacious(Arithmetic):
    context_length = 2000


def test_a_conversation_goes_on_where_it_was() -> None:
    tokenizer = words()
    model = Spacious(tokenizer.size)
    conversation = Conversation(model, tokenizer, FORMATS["bitnet"], limit=4, system="Be brief.")
    end = tokenizer.vocabulary.ids["<|eot_id|>"]
    first = conversation.ask("Hello <|eot_id|>")
    said = list(first)
    conversation.heard(first)
    prompt = [token for text in ("System: Be brief.", "User: Hello <|eot_id|>", "Assistant: ")
              for token in (*tokenizer.encode(text, add_special=False), end)][:-1]  # fmt: skip
    assert first.prompt == [tokenizer.bos, *prompt]
    assert said == model.said(first.prompt, 4)

    second = conversation.ask("More")
    list(second)
    asked = [
        *tokenizer.encode("User: More", add_special=False),
        end,
        *tokenizer.encode("Assistant: ", add_special=False),
    ]
    assert second.prompt == [*first.prompt, *said, *([end] if said[-1] != end else []), *asked]
    assert second.reused == len(first.prompt) + len(said) - 1  # all but the last token, which was never an input
    assert [message.role for message in conversation.messages] == ["system", "user", "assistant", "user"]


def test_an_end_token_from_the_model_is_not_added_again() -> None:
    tokenizer = words()
    end = tokenizer.vocabulary.ids["<|eot_id|>"]

    class Ending(Spacious):
        def row(self, tokens: Sequence[int]) -> Any:
            return np.eye(self.vocab_size, dtype=np.float32)[end]

    conversation = Conversation(Ending(tokenizer.size), tokenizer, FORMATS["bitnet"])
    for turn in range(3):
        answer = conversation.ask("x")
        assert list(answer) == [end]
        assert answer.reason == "end"
        conversation.heard(answer)
        assert answer.prompt.count(end) == 1 + 2 * turn


def test_a_rendered_conversation_is_the_same_as_a_declared_one() -> None:
    tokenizer = words()
    model = Spacious(tokenizer.size)

    def render(messages: Any) -> str:
        return "".join(piece.text for piece in FORMATS["bitnet"].prompt(messages))

    declared = Conversation(model, tokenizer, FORMATS["bitnet"]).ask("Hello!")
    assert Conversation(model, tokenizer, render).ask("Hello!").prompt == declared.prompt
    assert (
        Conversation(model, tokenizer, lambda each: "<|begin_of_text|>" + render(each)).ask("Hello!").prompt
        == declared.prompt
    )


def test_a_conversation_that_no_longer_fits_says_so_and_stays_as_it_was() -> None:
    tokenizer = words()
    conversation = Conversation(Spacious(tokenizer.size), tokenizer, FORMATS["bitnet"], room=60, limit=5)
    with pytest.raises(SettingError, match="room for 60"):
        conversation.ask("word " * 100)
    assert conversation.messages == []
    assert len(list(conversation.ask("word"))) == 5


# Perplexity.


def emulated(model: Arithmetic, tokens: list[int], context: int, bos: int | None) -> tuple[float, float, int]:
    """llama-perplexity's loop, literally."""
    total, squares, count = 0.0, 0.0, 0
    for i in range(len(tokens) // context):
        chunk = tokens[i * context : (i + 1) * context]
        if bos is not None:
            chunk[0] = bos
        first = context // 2
        for j in range(first, context - 1):
            logits = model.row(chunk[: j + 1]).astype(float)
            loss = -(logits[chunk[j + 1]] - logits.max() - math.log(np.exp(logits - logits.max()).sum()))
            total, squares, count = total + loss, squares + loss * loss, count + 1
    mean = total / count
    variance = squares / count - mean * mean
    return math.exp(mean), math.sqrt(max(variance, 0) / (count - 1)) * math.exp(mean), count


@given(st.lists(st.integers(0, VOCAB - 1), min_size=24, max_size=80), st.sampled_from([None, 7]), st.integers(4, 12))
@examples(40)
def test_perplexity_is_llama_perplexitys(tokens: list[int], bos: int | None, context: int) -> None:
    model = Arithmetic()
    estimates = list(perplexity(model, chunks(tokens, context, bos)))
    wanted = emulated(model, tokens, context, bos)
    last = estimates[-1]
    assert (last.perplexity, last.error, last.tokens) == pytest.approx(wanted, rel=1e-9, abs=1e-6)
    assert [each.chunks for each in estimates] == list(range(1, len(tokens) // context + 1))


def test_chunks() -> None:
    pieces = chunks(list(range(26)), 8, bos=99)
    assert [piece.tokens for piece in pieces] == [[99, *range(8 * i + 1, 8 * i + 8)] for i in range(3)]
    assert (pieces[1].first, pieces[1].targets) == (4, [13, 14, 15])
    assert len(chunks(list(range(26)), 8, most=2)) == 2
    assert chunks(list(range(26)), 8)[0].tokens[0] == 0


@pytest.mark.parametrize(
    ("tokens", "context", "most", "said"),
    [
        (list(range(15)), 8, None, "the text has 15 tokens; two chunks of 8 need 16"),
        ([], 512, None, "the text has 0 tokens"),
        ([1] * 99, 3, None, "half of it is scored"),
        ([1] * 99, 8, 0, "0 chunks"),
    ],
)
def test_texts_that_give_no_perplexity(tokens: list[int], context: int, most: int | None, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        chunks(tokens, context, most=most)


def test_perplexity_within_the_model() -> None:
    with pytest.raises(SettingError, match="context is 64"):
        list(perplexity(Arithmetic(), chunks([1] * 200, 65)))
    with pytest.raises(SettingError, match="token 3 of the text is 77"):
        list(perplexity(Arithmetic(), chunks([1, 1, 1, 77] * 4, 8)))


def test_likelihoods() -> None:
    found = log_likelihoods(np.float32([[0, 0, 0, 0], [1e4, 0, 0, 0]]), [2, 1])
    assert found == pytest.approx([-math.log(4), -1e4])
    with pytest.raises(FormatError, match="nan as the logit of token 1"):
        log_likelihoods(np.float32([[0, np.nan]]), [0])


# Small real models.


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet", "llama"])
def test_a_real_model_says_the_same_with_and_without_a_cache(architecture: str) -> None:
    from i2s_spec.model.load import load_model

    target = io.BytesIO()
    new(target, architecture, layers=1)
    model = load_model(target.getvalue(), threads=1)
    generation = Generation(model, [5, 9, 2], limit=5)
    tokens = list(generation)
    for count in range(1, 5):
        logits = model.forward([5, 9, 2, *tokens[: count - 1]]).logits
        assert int(np.argmax(logits[-1])) == tokens[count - 1]
    wanted = model.forward(list(range(12))).logits
    scored = log_likelihoods(wanted[6:-1], list(range(7, 12)))
    (estimate,) = perplexity(model, chunks(list(range(24)), 12, most=1))
    assert estimate.mean == pytest.approx(-scored.mean(), rel=1e-12)
