"""This module repairs vocabularies: arrays of a wrong length, duplicate or empty tokens, malformed merges and byte tokens.

Tokens keep their ids, so each row of the embedding keeps its meaning.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from i2s_spec.convert.container.edits import Edit
from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.reader import KeyValue
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Fix

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
    """The strings of an array; None for one that is too large to be a vocabulary."""
    start, stop, _ = entry.value_span
    if stop - start > LARGEST:
        return None
    data, at, items = workspace.source.read(start, stop - start), 0, []
    for index in range(entry.count):
        (length,) = struct.unpack_from(workspace.prefix + "Q", data, at)
        items.append(Item(index, start + at, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return items


@repair("T006", Fix.UNSAFE, "of two equal tokens the second becomes a filler")
def distinct_tokens(workspace: Workspace) -> Iterator[Outcome]:
    """Loaders fail with an assertion on them; the first keeps its text (clause 3.5)."""
    yield from _filled(workspace, "T006")


@repair("T007", Fix.UNSAFE, "empty tokens become fillers")
def named_tokens(workspace: Workspace) -> Iterator[Outcome]:
    """Loaders give them other names anyway (clause 3.5)."""
    yield from _filled(workspace, "T007")


def _filled(workspace: Workspace, code: str) -> Iterator[Outcome]:
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
def paired_merges(workspace: Workspace) -> Iterator[Outcome]:
    """They are never applied; the others keep their order (clause 3.5)."""
    for finding in workspace.findings("T003"):
        entry = workspace.file.metadata.entry(MERGES)
        items = items_of(workspace, entry)
        odd = [item for item in items or () if not _is_pair(item.text)]
        if items is None or len(odd) > MOST:
            yield Declined("T003", finding.span, "the list is too large, or too much of it is not a merge")
            continue
        start = entry.value_span.start
        count = Edit(
            Span(start - 8, start, f"{entry.value_span.path}.count"),
            struct.pack(workspace.prefix + "Q", len(items) - len(odd)),
        )
        edits = [item.edit(workspace, entry, b"")._replace(new=b"") for item in odd]
        does = f"{counted(len(odd), 'merge')} not of two parts removed"
        yield Action("T003", finding.span, does, (count, *edits), safe=False)


def _is_pair(text: bytes) -> bool:
    left, _, right = text.partition(b" ")
    return bool(left and right) and b" " not in right


@repair("T004", Fix.UNSAFE, "arrays get as many elements as there are tokens")
def equal_lengths(workspace: Workspace) -> Iterator[Outcome]:
    """Elements beyond that are cut. Missing types become 1 (normal), missing scores 0 unless a SentencePiece tokenizer
    needs them (3.5)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings("T004"):
        entry = workspace.entry(finding)
        count, wanted = int(finding.got), int(finding.want)
        start, stop, path = entry.value_span
        if count < wanted and entry.key.endswith("scores") and known.tokenizer == "llama":
            yield Declined("T004", finding.span, "the scores that are missing are not in the file")
            continue
        length = Edit(Span(start - 8, start, f"{path}.count"), struct.pack(workspace.prefix + "Q", wanted))
        fill = struct.pack(workspace.prefix + "i", _NORMAL) if entry.key.endswith("token_type") else bytes(4)
        if count > wanted:
            change = Edit(Span(start + 4 * wanted, stop, path), b"")
        else:
            change = Edit(Span(stop, stop, path), fill * (wanted - count))
        does = f"key {quote(entry.name)} gets {counted(wanted, 'element')}, it had {count:,}"
        yield Action("T004", finding.span, does, (length, change), safe=False)


@repair("T017", Fix.UNSAFE, "byte tokens get the byte that their place among the 256 byte tokens shows")
def byte_tokens(workspace: Workspace) -> Iterator[Outcome]:
    """SentencePiece lists the bytes in order (clause 3.5)."""
    findings = list(workspace.findings("T017"))
    items = items_of(workspace, workspace.file.metadata.entry(TOKENS)) if findings else None
    forms = ((item.number, _BYTE.fullmatch(item.text)) for item in items or ())
    bases = {index - int(form[1], 16) for index, form in forms if form is not None}
    for finding in findings:
        index = int(finding.details["index"])
        if items is None or len(bases) != 1 or not 0 <= (value := index - next(iter(bases))) < 256:
            yield Declined("T017", finding.span, "the byte tokens beside it do not show which byte it is")
            continue
        text = b"<0x%02X>" % value
        edit = items[index].edit(workspace, workspace.file.metadata.entry(TOKENS), text)
        does = f"token {index:,}, {quote(items[index].text)}, becomes {quote(text)}"
        yield Action("T017", finding.span, does, (edit,), safe=False)
