"""Repairs of the tokenizer's metadata: its kind, special tokens and text splitting, then the vocabulary."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from i2s_spec.convert.rewrite import Edit
from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.reader import KeyValue
from i2s_spec.gguf.strings import span_of
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.repair.plan import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Fix
from i2s_spec.schema.keys import DEFAULT_SPECIAL_TOKENS
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
def ids_in_range(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders drop them with a warning (clause 3.5)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        entry = workspace.entry(finding)
        if not entry.name.endswith(b"_token_id"):  # the finding is about the default for a missing id
            yield Declined(code, finding.span, "there is no id to remove: the vocabulary is too short")
            continue
        if DEFAULT_SPECIAL_TOKENS.get(known.tokenizer, {}).get(entry.name.decode(), -1) >= (known.tokens or 0):
            yield Declined(code, finding.span, "the default for a missing id is beyond the vocabulary, too")
            continue
        does = f"key {quote(entry.name)} is removed: there is no such token"
        yield Action(code, finding.span, does, (workspace.without_key(entry),), safe=False)


@repair("T015", Fix.UNSAFE, "tokenizer.ggml.add_bos_token = true is added")
def first_token(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The published models of these architectures were trained with one (clause 3.5)."""
    for finding in workspace.findings(code):
        edit = workspace.new_key("tokenizer.ggml.add_bos_token", True, ValueType.BOOL)
        yield Action(code, finding.span, "key 'tokenizer.ggml.add_bos_token' is added: true", (edit,), safe=False)


@repair("T010", Fix.UNSAFE, "tokenizer.ggml.pre becomes that of the vocabulary, if it is a known one")
@repair("T009", Fix.UNSAFE, "tokenizer.ggml.pre is added if the vocabulary is a known one")
def known_pre(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """`FAMILIES` lists the known ones (clause 3.5); for others nothing in the file says how text is split."""
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
    """Return how the text of a known vocabulary is split."""
    for family in FAMILIES:
        of_its_size = known.keys.count(MERGES) == family.merges and (known.tokens or 0) > max(
            i for i, _ in family.tokens
        )
        if of_its_size and all(_token(workspace, i) == text for i, text in family.tokens):
            return family.pre
    return None


def _token(workspace: Workspace, index: int) -> bytes:
    """Return one token; those before it are passed over."""
    start, stop, _ = workspace.file.metadata.entry(TOKENS).value_span
    at, end = span_of(workspace.source, start, stop, workspace.prefix == ">", index)
    return bytes(workspace.source.read(at, end - at))


@repair("T002", Fix.UNSAFE, "the kind of tokenizer becomes what the vocabulary shows")
@repair("T001", Fix.UNSAFE, "the kind of tokenizer is added if the vocabulary shows it")
def known_kind(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Byte-level vocabularies have merges, SentencePiece vocabularies have byte tokens (clause 3.5)."""
    for finding in workspace.findings(code):
        if code == "T001" and str(finding.details["key"]) != "tokenizer.ggml.model":
            yield Declined(code, finding.span, "a vocabulary cannot be invented: convert the model again")
        else:
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


# --- the vocabulary --------------------------------------------------------------------------------------------------
# Arrays of a wrong length, duplicate or empty tokens, malformed merges and byte tokens. Tokens keep their ids, so each
# row of the embedding keeps its meaning.

TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"

#: The largest array of strings that is repaired: its bytes, and its number of strings.
LARGEST: Final = 64 << 20
MOST: Final = 1 << 16

_BYTE: Final = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_NORMAL: Final = 1


class Item(NamedTuple):
    """One string of an array: its number, where its length begins, its text."""

    number: int
    at: int
    text: bytes

    def edit(self, workspace: Workspace, entry: KeyValue, text: bytes) -> Edit:
        span = Span(self.at, self.at + 8 + len(self.text), f"{entry.value_span.path}.items[{self.number}]")
        return Edit(span, struct.pack(workspace.prefix + "Q", len(text)) + text)


def items_of(workspace: Workspace, entry: KeyValue) -> list[Item] | None:
    """Return the strings of an array; None for one that is too large to be a vocabulary."""
    start, stop, _ = entry.value_span
    if stop - start > LARGEST:
        return None
    data, at, items = workspace.source.read(start, stop - start), 0, []
    for index in range(entry.count):
        (length,) = struct.unpack_from(workspace.prefix + "Q", data, at)
        items.append(Item(index, start + at, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return items


@repair("T007", Fix.UNSAFE, "empty tokens become fillers")
@repair("T006", Fix.UNSAFE, "of two equal tokens the second becomes a filler")
def distinct_tokens(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders fail with an assertion on equal tokens, and give empty ones other names anyway (clause 3.5).

    Of equal tokens the first keeps its text.
    """
    for finding in workspace.findings(code):
        entry = workspace.file.metadata.entry(TOKENS)
        items = items_of(workspace, entry)
        if items is None:
            yield Declined(code, finding.span, "the list of tokens is too large to be a vocabulary")
            continue
        taken = {item.text for item in items}
        met: set[bytes] = set()
        edits = []
        for item in items:
            if item.text in met or not item.text:
                name = b"[PAD%d]" % item.number
                while name in taken:
                    name = b"[PAD" + name[4:-1] + b"_]"
                taken.add(name)
                edits.append(item.edit(workspace, entry, name))
            met.add(item.text)
        if len(edits) > MOST:
            yield Declined(
                code,
                finding.span,
                f"{counted(len(edits), 'token is', 'tokens are')} empty or equal: it is not a vocabulary",
            )
            continue
        does = f"fillers such as [PAD7] replace {counted(len(edits), 'empty or duplicate token')}"
        yield Action(code, finding.span, does, tuple(edits), safe=False)


@repair("T003", Fix.UNSAFE, "merges that are not pairs are removed")
def paired_merges(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """They are never applied; the others keep their order (clause 3.5)."""
    for finding in workspace.findings(code):
        entry = workspace.file.metadata.entry(MERGES)
        items = items_of(workspace, entry)
        odd = [item for item in items or () if not _is_pair(item.text)]
        if items is None or len(odd) > MOST:
            yield Declined(code, finding.span, "the list is too large, or too much of it is not a merge")
            continue
        start = entry.value_span.start
        count = Edit(
            Span(start - 8, start, f"{entry.value_span.path}.count"),
            struct.pack(workspace.prefix + "Q", len(items) - len(odd)),
        )
        edits = [item.edit(workspace, entry, b"")._replace(new=b"") for item in odd]
        does = f"{counted(len(odd), 'merge')} not of two parts removed"
        yield Action(code, finding.span, does, (count, *edits), safe=False)


def _is_pair(text: bytes) -> bool:
    left, _, right = text.partition(b" ")
    return bool(left and right) and b" " not in right


@repair("T004", Fix.UNSAFE, "arrays get as many elements as there are tokens")
def equal_lengths(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Elements beyond that are cut. Missing types become 1 (normal), missing scores 0 unless a SentencePiece tokenizer
    needs them (3.5)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        entry = workspace.entry(finding)
        count, wanted = int(finding.got), int(finding.want)
        start, stop, path = entry.value_span
        if count < wanted and entry.key.endswith("scores") and known.tokenizer == "llama":
            yield Declined(code, finding.span, "the scores that are missing are not in the file")
            continue
        length = Edit(Span(start - 8, start, f"{path}.count"), struct.pack(workspace.prefix + "Q", wanted))
        fill = struct.pack(workspace.prefix + "i", _NORMAL) if entry.key.endswith("token_type") else bytes(4)
        if count > wanted:
            change = Edit(Span(start + 4 * wanted, stop, path), b"")
        else:
            change = Edit(Span(stop, stop, path), fill * (wanted - count))
        does = f"key {quote(entry.name)} gets {counted(wanted, 'element')}, it had {count:,}"
        yield Action(code, finding.span, does, (length, change), safe=False)


@repair("T017", Fix.UNSAFE, "byte tokens get the byte that their place among the 256 byte tokens shows")
def byte_tokens(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """SentencePiece lists the bytes in order (clause 3.5)."""
    findings = list(workspace.findings(code))
    items = items_of(workspace, workspace.file.metadata.entry(TOKENS)) if findings else None
    forms = ((item.number, _BYTE.fullmatch(item.text)) for item in items or ())
    bases = {index - int(form[1], 16) for index, form in forms if form is not None}
    for finding in findings:
        index = int(finding.details["index"])
        if items is None or len(bases) != 1 or not 0 <= (value := index - next(iter(bases))) < 256:
            yield Declined(code, finding.span, "the byte tokens beside it do not show which byte it is")
            continue
        text = b"<0x%02X>" % value
        edit = items[index].edit(workspace, workspace.file.metadata.entry(TOKENS), text)
        does = f"token {index:,}, {quote(items[index].text)}, becomes {quote(text)}"
        yield Action(code, finding.span, does, (edit,), safe=False)
