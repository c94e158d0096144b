"""This module repairs the tokenizer's metadata except the vocabulary: its kind, special tokens, text splitting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.repair.actions.vocabulary_repairs import MERGES, TOKENS, items_of
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules.tokenizer.tokenizer_keys import default_id
from i2s_spec.schema.types import ValueType


class _Family(NamedTuple):
    """How to recognize a known vocabulary: its value of `pre`, the number of merges, and tokens by id."""

    merges: int
    tokens: tuple[tuple[int, bytes], ...]
    pre: str


#: Known vocabularies with their `tokenizer.ggml.pre`. Their marks tell them from all others, invented ones too: words
#: have the ids that llama.cpp's tests of these tokenizers give them.
FAMILIES: Final = (
    _Family(
        280_147,
        (
            (1_917, "\u0120world".encode()), (9_906, b"Hello"), (22_691, "\u0120Hello".encode()),
            (128_000, b"<|begin_of_text|>"), (128_009, b"<|eot_id|>"),
        ),
        "llama-bpe",
    ),
    _Family(
        151_387,
        (
            (1_879, "\u0120world".encode()), (9_707, b"Hello"), (151_643, b"<|endoftext|>"), (151_645, b"<|im_end|>"),
        ),
        "qwen2",
    ),
)  # fmt: skip


@repair("T008", Fix.UNSAFE, "ids beyond the vocabulary are removed")
def ids_in_range(workspace: Workspace) -> Iterator[Outcome]:
    """Loaders drop them with a warning (clause 3.5)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings("T008"):
        entry = workspace.entry(finding)
        if not entry.name.endswith(b"_token_id"):  # the finding is about the default for a missing id
            yield Declined("T008", finding.span, "there is no id to remove: the vocabulary is too short")
            continue
        if default_id(known.tokenizer, entry.name.decode()) >= (known.tokens or 0):
            yield Declined("T008", finding.span, "the default for a missing id is beyond the vocabulary, too")
            continue
        does = f"key {quote(entry.name)} is removed: there is no such token"
        yield Action("T008", finding.span, does, (workspace.without_key(entry),), safe=False)


@repair("T015", Fix.UNSAFE, "tokenizer.ggml.add_bos_token = true is added")
def first_token(workspace: Workspace) -> Iterator[Outcome]:
    """The published models of these architectures were trained with one (clause 3.5)."""
    for finding in workspace.findings("T015"):
        edit = workspace.new_key("tokenizer.ggml.add_bos_token", True, ValueType.BOOL)
        yield Action("T015", finding.span, "key 'tokenizer.ggml.add_bos_token' is added: true", (edit,), safe=False)


@repair("T009", Fix.UNSAFE, "tokenizer.ggml.pre is added if the vocabulary is a known one")
def added_pre(workspace: Workspace) -> Iterator[Outcome]:
    """`FAMILIES` lists the known ones (clause 3.5); for others nothing in the file says how text is split."""
    yield from _pre(workspace, "T009")


@repair("T010", Fix.UNSAFE, "tokenizer.ggml.pre becomes that of the vocabulary, if it is a known one")
def known_pre(workspace: Workspace) -> Iterator[Outcome]:
    """`FAMILIES` lists the known ones (clause 3.5); for others nothing in the file says how text is split."""
    yield from _pre(workspace, "T010")


def _pre(workspace: Workspace, code: str) -> Iterator[Outcome]:
    key = "tokenizer.ggml.pre"
    for finding in workspace.findings(code):
        pre = _family(workspace, architecture_view(workspace.subject))
        if pre is None:
            yield Declined(code, finding.span, "the family of the vocabulary is not certain")
        else:
            yield _set(workspace, finding, key, pre)


def _set(workspace: Workspace, finding: Any, key: str, value: str) -> Action:
    there = key in workspace.file.metadata
    if there:
        edit = workspace.with_value(workspace.file.metadata.entry(key), value, ValueType.STRING)
    else:
        edit = workspace.new_key(key, value, ValueType.STRING)
    does = f"key {quote(key)} {'becomes' if there else 'is added:'} {value}"
    return Action(finding.code, finding.span, does, (edit,), safe=False)


def _family(workspace: Workspace, known: ArchitectureView) -> str | None:
    """How the text of a known vocabulary is split."""
    for family in FAMILIES:
        if known.keys.count(MERGES) == family.merges and (known.tokens or 0) > max(i for i, _ in family.tokens):
            items = items_of(workspace, workspace.file.metadata.entry(TOKENS))
            if items is not None and all(items[i].text == text for i, text in family.tokens):
                return family.pre
    return None


@repair("T001", Fix.UNSAFE, "the kind of tokenizer is added if the vocabulary shows it")
def shown_kind(workspace: Workspace) -> Iterator[Outcome]:
    """Byte-level vocabularies have merges, SentencePiece vocabularies have byte tokens (clause 3.5)."""
    for finding in workspace.findings("T001"):
        if str(finding.details["key"]) == "tokenizer.ggml.model":
            yield from _kind(workspace, finding)
        else:
            yield Declined("T001", finding.span, "a vocabulary cannot be invented: convert the model again")


@repair("T002", Fix.UNSAFE, "the kind of tokenizer becomes what the vocabulary shows")
def known_kind(workspace: Workspace) -> Iterator[Outcome]:
    """Byte-level vocabularies have merges, SentencePiece vocabularies have byte tokens (clause 3.5)."""
    for finding in workspace.findings("T002"):
        yield from _kind(workspace, finding)


def _kind(workspace: Workspace, finding: Any) -> Iterator[Outcome]:
    known = architecture_view(workspace.subject)
    kinds = set()
    if known.keys.has(TOKENS):
        seen = known.vocabulary
        newline = known.sought.index(b"<0x0A>")
        if seen is not None and seen.found[newline] >= 0 and known.keys.has("tokenizer.ggml.scores"):
            kinds.add("llama")
        if known.keys.has(MERGES) and known.keys.count(MERGES):
            kinds.add("gpt2")
    if len(kinds) == 1:
        yield _set(workspace, finding, "tokenizer.ggml.model", kinds.pop())
    else:
        yield Declined(finding.code, finding.span, "the vocabulary does not show its kind")
