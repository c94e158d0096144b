"""Rules about the use of tokens and merges: special tokens and their types, markers of templates, order of merges.

Only the beginning of a list is checked (`LOOKED_AT`): a mistake of a converter affects the whole list.
"""

from collections.abc import Iterator
from typing import Final

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import TrustedText
from i2s_spec.gguf import string_arrays
from i2s_spec.gguf.string_arrays import Strings
from i2s_spec.linter.analysis.architecture_view import TEXT_BEGINS, TEXT_ENDS, ArchitectureView, architecture_view
from i2s_spec.linter.analysis.conditions import byte_level_vocabularies, usual_vocabularies, with_tokens
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import WARNING, Finding, rule
from i2s_spec.linter.rules.tokenizer.template_text import seen as texts_of
from i2s_spec.linter.rules.tokenizer.template_text import with_templates

_TOKENS, _MERGES, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"
_BOS, _EOS = "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"
_NORMAL: Final = 1

#: How many strings at the beginning of a list are examined, and from how many bytes they are read.
LOOKED_AT: Final = 1024
_BYTES: Final = 1 << 16
#: From this share and this number of wrong entries on, a whole list counts as wrong.
SHARE: Final = 0.1
LEAST: Final = 8
#: The ratio of merges to tokens that merges could make below which many are missing.
MERGES_FOR_TOKENS: Final = 0.75
#: Tokens that stand for bytes.
BYTES: Final = 256
#: The largest number of token types that are counted.
_COUNTED: Final = 1 << 20

#: The lengths in bytes of the name between `<|` and `|>` of a marker: letters, digits and `_`, and a letter first.
_IN_MARKER: Final = range(2, 42)
#: The largest number of template markers to look for.
_MARKERS: Final = 48


def _first(known: ArchitectureView, name: str, having: bytes = b"") -> list[bytes]:
    """The first strings of an array; empty where too few of them contain the given bytes to be reported."""
    if not known.keys.has(name) or known.file.fault is not None:
        return []
    entry, order = known.file.index.key(known.keys.places[name]), known.file.byte_order
    data = known.file.source.read(entry.value_start, min(_BYTES, entry.stop - entry.value_start))
    if having and data.count(having) < LEAST:
        return []
    found: list[bytes] = []
    at, room = 0, len(data) - 8
    for _ in range(min(LOOKED_AT, entry.count)):
        if at > room:
            break
        start = at + 8
        at = start + int.from_bytes(data[at:start], order)
        if at > room + 8:
            break
        found.append(bytes(data[start:at]))
    return found


def _types(known: ArchitectureView, start: int, count: int) -> tuple[int, ...]:
    """The types of some tokens, as far as the file has them."""
    total = known.keys.count(_TYPES)
    if total is None or known.file.fault is not None or start >= total:
        return ()
    count = min(count, total - start)
    place = known.file.index.key(known.keys.places[_TYPES]).value_start + 4 * start
    return tuple(numbers("i", known.file.source.read(place, 4 * count), known.file.byte_order))


def _count_of(known: ArchitectureView, wanted: int) -> int:
    """The number of tokens of a type among the first `_COUNTED` tokens."""
    total = known.keys.count(_TYPES)
    if total is None or known.file.fault is not None:
        return 0
    start, big = known.file.index.key(known.keys.places[_TYPES]).value_start, known.file.byte_order == "big"
    return string_arrays.count_equal(known.file.source, start, min(_COUNTED, total), big, wanted)


@rule("T018", "special-token-normal", "{key} is token {got}, {text}, whose type is normal", severity=WARNING, clause="3.5",
      when=with_tokens)  # fmt: skip
def special_token_normal(subject: Subject) -> Iterator[Finding]:
    """A special token has the type normal.

    Why: a normal token is text: programs print it, and recognize it in the user's text. Either the end-of-text token is
    shown to the user, or an ordinary word ends every answer early.

    Example: eos_token_id is the number of 'the', or that of <|end_of_text|> with type 1.

    Fix: write the id of the token that ends a text, and 3 (control) as its type.
    """
    known = architecture_view(subject)
    assert known.tokens is not None
    if not known.has_usual_vocabulary:
        return
    for name in (_BOS, _EOS, "tokenizer.ggml.eot_token_id"):
        value = known.keys.value(name)
        if isinstance(value, int) and 0 <= value < known.tokens and _types(known, value, 1) == (_NORMAL,):
            text = known.item(known.item_span(_TOKENS, value))
            yield special_token_normal.at(known.keys.value_span(name), got=value, key=TrustedText(name), text=text)


@rule("T019", "special-tokens-exchanged", "{key} is token {got}, {text}, which {want} a text", severity=WARNING,
      clause="3.5", when=usual_vocabularies)  # fmt: skip
def special_tokens_exchanged(subject: Subject) -> Iterator[Finding]:
    """The token that begins texts and the token that ends them are exchanged.

    Why: programs put the first token before every text, and stop at the end token. If the two are exchanged, the model
    sees the end of a text at its beginning, and never stops.

    Example: bos_token_id is that of <|end_of_text|>, and eos_token_id that of <|begin_of_text|>.

    Fix: exchange the two ids.
    """
    known = architecture_view(subject)
    found = known.vocabulary
    if found is None:
        return
    wrong = {_BOS: (TEXT_ENDS, "ends"), _EOS: (TEXT_BEGINS, "begins")}
    for name, (texts, what) in wrong.items():
        places = {found.found[known.sought.index(text)]: text for text in texts}
        value, other = known.keys.value(name), known.keys.value(_EOS if name == _BOS else _BOS)
        if isinstance(value, int) and value in places and value != other:  # one token for both is usual
            yield special_tokens_exchanged.at(
                known.keys.value_span(name), got=value, want=TrustedText(what), key=TrustedText(name), text=places[value]
            )  # fmt: skip
            return


def with_markers(subject: Subject) -> bool:
    """files with a chat template and markers among their tokens"""
    return with_templates(subject) and usual_vocabularies(subject) and architecture_view(subject).vocabulary is not None


@rule("T020", "template-marker-missing", "{key} has {got}, which is not a token (markers without a token: {count})",
      severity=WARNING, clause="3.5", when=with_markers)  # fmt: skip
def template_marker_missing(subject: Subject) -> Iterator[Finding]:
    """A chat template has markers that are not in the vocabulary.

    Why: the marker is then split into pieces of ordinary text, which the model never saw around a turn in training.
    Models without any markers in their vocabulary are trained with such text; they are not reported.

    Example: the template of Llama 3 with <|start_header_id|>, and a vocabulary without it.

    Fix: take the template and the tokenizer from the same model.
    """
    known = architecture_view(subject)
    templates = [text for text in texts_of(subject).texts if text.is_template]
    seen = known.vocabulary
    assert seen is not None
    for text in templates:
        markers = {marker: at for at, marker in reversed(list(_markers(text.data)))}
        sought = list(markers)[:_MARKERS]
        places = _places(known, seen, sought)
        missing = sorted((markers[marker], marker) for marker, at in zip(sought, places, strict=True) if at < 0)
        has_markers = len(missing) < len(sought) or any(
            at >= 0 and list(_markers(each)) == [(0, each)] for each, at in zip(known.sought, seen.found, strict=True)
        )
        if missing and has_markers:
            start, first = missing[0]
            span = text.span(start, start + len(first))
            yield template_marker_missing.at(span, got=first, key=text.key, count=len(missing))


def _markers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The markers in a text, `<|...|>`, and where each begins."""
    at = data.find(b"<|")
    while at >= 0:
        start = at + 2
        stop = data.find(b"|>", start, start + _IN_MARKER.stop + 1)
        word = data[start : max(stop, start)]
        if len(word) in _IN_MARKER and word[:1].isalpha() and word.replace(b"_", b"").isalnum():
            yield at, data[at : stop + 2]
            start = stop + 2
        at = data.find(b"<|", start)


def _places(known: ArchitectureView, seen: Strings, markers: list[bytes]) -> tuple[int, ...]:
    """The token id of each marker, or -1; the tokens are read again only where there are more than were kept."""
    if seen.markers == len(seen.marked):
        return tuple(seen.marked.get(marker, -1) for marker in markers)
    entry, big = known.file.index.key(known.keys.places[_TOKENS]), known.file.byte_order == "big"
    return string_arrays.look(known.file.source, entry.value_start, entry.stop, entry.count, big, markers, 0).found


@rule("T021", "merge-order", "of the first {want:merge}, {got} join parts that no earlier merge makes; the first is "
      "merge {index}, {text}", severity=WARNING, clause="3.5", when=byte_level_vocabularies)  # fmt: skip
def merge_order(subject: Subject) -> Iterator[Finding]:
    """Merges are not in the order in which they were learned, or some are missing.

    Why: a merge applies to existing parts: single bytes, or results of earlier merges. In another order or with gaps,
    most merges never apply, and text is split into other tokens than in training.

    Example: merges in reverse order, or only every second one.

    Fix: write the merges in the order of tokenizer.json or merges.txt.
    """
    known = architecture_view(subject)
    merges = _first(known, _MERGES)
    made: set[bytes] = set()
    wrong: list[int] = []
    for place, merge in enumerate(merges):
        parts = merge.split(b" ")
        if len(parts) != 2:
            continue  # T003 reports those
        left, right = parts
        if (len(left) > 1 and left not in made and len(left.decode("utf-8", "replace")) > 1) or (
            len(right) > 1 and right not in made and len(right.decode("utf-8", "replace")) > 1
        ):
            wrong.append(place)
        made.add(left + right)
    if len(wrong) >= max(LEAST, SHARE * len(merges)):
        span = known.item_span(_MERGES, wrong[0])
        yield merge_order.at(span, got=len(wrong), want=len(merges), index=wrong[0], text=known.item(span))


@rule("T022", "merges-missing", "the file has {got:merge} for {want:token that needs|tokens that need} one",
      severity=WARNING, clause="3.5", when=byte_level_vocabularies)  # fmt: skip
def merges_missing(subject: Subject) -> Iterator[Finding]:
    """The file has far fewer merges than tokens that need one.

    Why: in a byte-level vocabulary, each token that is neither a byte nor special is the result of a merge. Tokens
    without a merge never occur in a text, which is split into smaller pieces.

    Example: a list of merges that was truncated in the middle.

    Fix: write all merges, in the order of tokenizer.json or merges.txt.
    """
    known = architecture_view(subject)
    merges, seen = known.keys.count(_MERGES), known.vocabulary
    if merges is None or seen is None or known.keys.count(_TYPES) != known.tokens:
        return
    normal = _count_of(known, _NORMAL)
    wanted = normal - BYTES - seen.numbered
    if wanted >= LEAST and merges < MERGES_FOR_TOKENS * wanted:
        yield merges_missing.at(known.keys.value_span(_MERGES), got=merges, want=wanted)


@rule("T023", "blank-in-token", "tokens with a blank among the first {want}: {got}; the first is token {index}, {text}",
      severity=WARNING, clause="3.5", when=byte_level_vocabularies)  # fmt: skip
def blank_in_token(subject: Subject) -> Iterator[Finding]:
    """Tokens of a byte-level vocabulary contain plain blanks instead of U+0120.

    Why: byte-level vocabularies represent each byte by a printable character, and a blank by U+0120. A plain blank does
    not belong to that alphabet, so programs never find the token, and print it wrongly or not at all.

    Example: ' the' in place of U+0120 'the'.

    Fix: convert the tokenizer again, from its own files.
    """
    known = architecture_view(subject)
    tokens = _first(known, _TOKENS, having=b" ")
    types = _types(known, 0, len(tokens)) or (_NORMAL,) * len(tokens)
    wrong = [
        at for at, (token, kind) in enumerate(zip(tokens, types, strict=False)) if kind == _NORMAL and b" " in token
    ]
    if len(wrong) >= LEAST:
        span = known.item_span(_TOKENS, wrong[0])
        yield blank_in_token.at(span, got=len(wrong), want=len(tokens), index=wrong[0], text=known.item(span))
