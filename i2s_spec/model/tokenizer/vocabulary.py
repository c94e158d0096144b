"""The vocabulary of a file, each part of it checked when it is first used, and the faults that make it unusable.

Nothing in the file is trusted: counts are compared with limits before a list is made, lengths with each other, types
with those that loaders need (clause 3.5). A decoder does not need merges and scores, so they are not read for it.
"""

from __future__ import annotations

import struct
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import Fault, FormatError, Span, TrustedText
from i2s_spec.linter.rules.tokenizer import (
    duplicate_token,
    merge_form,
    tokenizer_array_length,
    tokenizer_key_missing,
    tokenizer_unknown,
)
from i2s_spec.schema.faults import MERGE_OF_NO_TOKENS as BAD_MERGE
from i2s_spec.schema.faults import PRE_UNSUPPORTED as PRE_UNKNOWN
from i2s_spec.schema.faults import SCORE_NOT_A_NUMBER as SCORE_NAN
from i2s_spec.schema.faults import TOKENIZER_TOO_LARGE as TOO_LARGE
from i2s_spec.schema.faults import TOKENIZER_UNSUPPORTED as MODEL_UNSUPPORTED
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.keys import KEY_TYPE

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, KeyValue

__all__ = [
    "BAD_MERGE",
    "BYTE",
    "CONTROL",
    "DUPLICATE",
    "END_TOKENS",
    "KEY_MISSING",
    "KEY_TYPE",
    "LENGTH",
    "MERGE_FORM",
    "MODEL_UNKNOWN",
    "MODEL_UNSUPPORTED",
    "MOST_BYTES",
    "MOST_MERGES",
    "MOST_TOKENS",
    "NORMAL",
    "PIECE_DEFAULTS",
    "PRE_UNKNOWN",
    "SCORE_NAN",
    "TOO_LARGE",
    "UNDEFINED",
    "UNKNOWN",
    "UNUSED",
    "USER_DEFINED",
    "Vocabulary",
]

#: The values of `tokenizer.ggml.token_type`.
UNDEFINED, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(7)

#: Tokens that end a turn or a text, if no key names them.
END_TOKENS: Final = frozenset((
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
))  # fmt: skip

#: Limits, each several times that of real vocabularies (262,144 tokens, 515,000 merges, 2 MB of text).
MOST_TOKENS: Final = 1 << 20
MOST_MERGES: Final = 1 << 21
MOST_BYTES: Final = 1 << 26

#: Special ids that loaders assume if a SentencePiece vocabulary does not name them.
PIECE_DEFAULTS: Final = {"bos": 1, "eos": 2, "unknown": 0}

#: The array types that files of different years use.
_TYPES: Final = {
    "tokenizer.ggml.tokens": ("arr[str]",),
    "tokenizer.ggml.merges": ("arr[str]",),
    "tokenizer.ggml.scores": ("arr[f32]",),
    "tokenizer.ggml.token_type": ("arr[i32]", "arr[u32]"),
}


class Vocabulary:
    """The tokens of a file by id, with their properties.

    :param file: an open file; it must stay open until all needed parts have been read
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.metadata = file.metadata

    @cached_property
    def model(self) -> str:
        """The kind of tokenizer: the value of `tokenizer.ggml.model`.

        :raises FormatError: T001, M003 if there is no such value
        """
        found: str = self._value("tokenizer.ggml.model", "str", None, required=True)
        return found

    @cached_property
    def pre(self) -> str | None:
        """The name of the pre-tokenizer; None if the file names none."""
        return self._value("tokenizer.ggml.pre", "str", None) or None

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens, by id; bytes that are not UTF-8 are surrogate escapes, empty tokens get the names that loaders
        give them.

        :raises FormatError: T001, M003, T905, T006 for a list that is missing, has a wrong type, is too large, or has a
        token twice
        """
        key = "tokenizer.ggml.tokens"
        tokens = self._list(key, MOST_TOKENS, required=True)
        if not all(tokens):
            tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(tokens)]
        if len(set(tokens)) != len(tokens):
            seen: dict[str, int] = {}
            for i, token in enumerate(tokens):
                first = seen.setdefault(token, i)
                if first != i:
                    raise FormatError(DUPLICATE, self.item_span(key, i), text=token, first=first, second=i)
        return tokens

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: i for i, token in enumerate(self.tokens)}

    @cached_property
    def given_types(self) -> list[int]:
        """The type of each token, as the file has it; all are normal if it has no types.

        :raises FormatError: for a list of another length or type
        """
        found = self._numbers("tokenizer.ggml.token_type")
        return [NORMAL] * len(self) if found is None else list(found.tolist())

    @cached_property
    def types(self) -> list[int]:
        """The type of each token; all are normal if the file has no types, and an unknown type is undefined.

        As in loaders, tokens that end a turn are control tokens even if the file says that they are text.
        """
        types = list(self.given_types)
        if types and not UNDEFINED <= min(types) <= max(types) <= BYTE:
            types = [kind if UNDEFINED <= kind <= BYTE else UNDEFINED for kind in types]
        for i in self._end_tokens:
            if types[i] in (UNDEFINED, NORMAL):
                types[i] = CONTROL
        return types

    @cached_property
    def scores(self) -> list[float]:
        """The score of each token; 0 if the file has none.

        :raises FormatError: T908 for a score that is NaN, which has no order
        """
        import numpy as np

        key = "tokenizer.ggml.scores"
        found = self._numbers(key)
        if found is None:
            return [0.0] * len(self)
        wrong = np.flatnonzero(np.isnan(found))
        if len(wrong):
            i = int(wrong[0])
            raise FormatError(SCORE_NAN, self.item_span(key, i), index=i, token=self.tokens[i])
        scores: list[float] = found.tolist()
        return scores

    @cached_property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs that are joined, in the order of their ranks; of equal pairs only the first.

        A pair is written with a space between its parts, and the first part has at least one character.

        :raises FormatError: T003 for a merge that is not a pair, T907 for one whose parts or result are not tokens
        """
        key = "tokenizer.ggml.merges"
        lines = self._list(key, MOST_MERGES, required=True)
        ids = self.ids.keys()
        found = [(left, right) for left, _, right in (line.partition(" ") for line in lines)]
        if not (set(chain.from_iterable(found)) <= ids and set(map("".join, found)) <= ids):
            # Something is wrong, or a first part begins with a space: check each merge.
            for i, line in enumerate(lines):
                left, right = found[i] = line[:1] + line[1:].partition(" ")[0], line[1:].partition(" ")[2]
                if not right or left not in ids or right not in ids or left + right not in ids:
                    self._refuse_merge(key, i, line, left, right)
        return list(dict.fromkeys(found))

    def _refuse_merge(self, key: str, i: int, line: str, left: str, right: str) -> None:
        if not right:
            odd = sum(1 for each in self._list(key, MOST_MERGES, required=True) if not each[1:].partition(" ")[2])
            raise FormatError(MERGE_FORM, self.item_span(key, i), got=odd, want=0, index=i, text=line)
        want = "its result is not a token"
        if left not in self.ids or right not in self.ids:
            want = f"its {'first' if left not in self.ids else 'second'} part is not a token"
        raise FormatError(BAD_MERGE, self.item_span(key, i), got=line, want=TrustedText(want), index=i)

    # Special tokens.

    def special(self, name: str) -> int | None:
        """Return the id of a special token by the name in its key (`bos`, `eos`, `eot` …); None if there is none.

        An id without a token is dropped, as in loaders.
        """
        default = PIECE_DEFAULTS.get(name) if self.model == "llama" else None
        found: int | None = self._value(f"tokenizer.ggml.{name}_token_id", "u32", default)
        return found if found is not None and found < len(self) else default if (default or 0) < len(self) else None

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean of the file, such as `add_bos_token`."""
        return bool(self._value(f"tokenizer.ggml.{name}", "bool", default))

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids after which generation stops: those in keys, and those of the tokens with the usual names."""
        named = {found for name in ("eos", "eot", "eom") if (found := self.special(name)) is not None}
        return self._end_tokens | named

    @cached_property
    def _end_tokens(self) -> frozenset[int]:
        """The ids of the tokens that usually end a turn; `ids` would take longer to make."""
        return frozenset(map(self.tokens.index, END_TOKENS & set(self.tokens)))

    # Positions.

    def item_span(self, key: str, i: int) -> Span:
        """Return the bytes of element `i` of an array."""
        entry = self.metadata.entry(key)
        path = f"{entry.value_span.path}.items[{i}]"
        if entry.label != "arr[str]":
            width = (entry.value_span.stop - entry.value_span.start) // max(entry.count, 1)
            at = entry.value_span.start + i * width
            return Span(at, at + width, path)
        data = self.file.source.read(entry.value_span.start, entry.value_span.stop - entry.value_span.start)
        order, at = order_prefix(self.file.byte_order) + "Q", 0
        for _ in range(i):
            at += 8 + struct.unpack_from(order, data, at)[0]
        size = struct.unpack_from(order, data, at)[0]
        return Span(entry.value_span.start + at, entry.value_span.start + at + 8 + size, path)

    # Values of one type.

    def _value(self, key: str, label: str, default: Any, required: bool = False) -> Any:
        entry = self._entry(key, (label,), required)
        return default if entry is None else self.metadata.decode(entry)

    def _entry(self, key: str, labels: tuple[str, ...], required: bool = False) -> KeyValue | None:
        if key not in self.metadata:
            if required:
                raise FormatError(KEY_MISSING, Span(0, 0, key), key=TrustedText(key))
            return None
        entry = self.metadata.entry(key)
        if entry.label not in labels:
            self._raise(KEY_TYPE, entry, key, got=TrustedText(entry.label), want=TrustedText(labels[0]))
        return entry

    def _list(self, key: str, most: int, required: bool) -> list[str]:
        entry = self._entry(key, _TYPES[key], required)
        if entry is None:
            return []
        size = entry.value_span.stop - entry.value_span.start
        if entry.count > most:
            self._raise(TOO_LARGE, entry, key, got=entry.count, want=most, unit=TrustedText("elements"))
        if size > MOST_BYTES:
            self._raise(TOO_LARGE, entry, key, got=size, want=MOST_BYTES, unit=TrustedText("bytes"))
        found: list[str] = self.metadata.decode(entry)
        return found

    def _numbers(self, key: str) -> Any:
        entry = self._entry(key, _TYPES[key])
        if entry is None:
            return None
        if entry.count != len(self):
            self._raise(LENGTH, entry, key, got=entry.count, want=len(self))
        return self.metadata.decode(entry)

    @staticmethod
    def _raise(fault: Fault, entry: KeyValue, key: str, **details: Any) -> None:
        raise FormatError(fault, entry.value_span, key=TrustedText(key), **details)


# --- faults ----------------------------------------------------------------------------------------------------------
# Some are those of the linter, others only of the tokenizer. They stop the tokenizer only; a model with such a
# vocabulary still runs on token ids.

KEY_MISSING: Final = tokenizer_key_missing.fault
MODEL_UNKNOWN: Final = tokenizer_unknown.fault
MERGE_FORM: Final = merge_form.fault
LENGTH: Final = tokenizer_array_length.fault
DUPLICATE: Final = duplicate_token.fault
