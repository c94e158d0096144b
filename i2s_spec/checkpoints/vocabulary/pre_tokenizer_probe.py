"""This module finds the name of a pre-tokenizer by its effect on a probe text, not by a stated name.

The library `tokenizers` says where tokenizer.json splits the text; this is compared with the declared pre-tokenizers.
Names that split equally (`llama-bpe`, `falcon3`, `falcon_e`) cannot be distinguished, and need not be: the family's
name is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.errors import MissingExtra, counted, quote
from i2s_spec.model.tokenizer.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from i2s_spec.model.tokenizer.splitting import expression
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT

#: Texts on which the declared pre-tokenizers differ.
PROBES: Final = (
    CHECK_TEXT,
    "12345678 a1b22\n\n\n  x  \t\ty'S WE'LL don't ++ -- ...!?\r\n(brackets)[99] 中文123",
)

_SECONDS: Final = 20
_MEMORY: Final = 4 << 30


class CannotTellError(ValueError):
    """The library gave no result; the text is its reason."""


def ask_library(tokenizer: Mapping[str, Any], what: str, texts: Sequence[str]) -> list[list[int]]:
    """The library's result for texts.

    :param what: `cuts`, where the pre-tokenizer splits them (in characters), or `ids`
    :raises MissingExtra: without the extra [tokenizer]
    :raises CannotTellError: if the library does not understand the file, or exceeds a limit
    """
    request = {
        "tokenizer": json.dumps(tokenizer), "what": what, "texts": list(texts), "seconds": _SECONDS, "memory": _MEMORY,
        "path": sys.path,
    }  # fmt: skip
    script = str(Path(__file__).with_name("tokenizers_worker.py"))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", script], input=json.dumps(request).encode(), capture_output=True,
            timeout=3 * _SECONDS, check=False, env={"TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotTellError(f"it did not end within {counted(3 * _SECONDS, 'second')}") from None
    if done.returncode != 0 or not done.stdout:
        raise CannotTellError(f"it took more than {_SECONDS} seconds or {_MEMORY >> 30} GB, and was stopped")
    reply = json.loads(done.stdout)
    if "missing" in reply:
        raise MissingExtra("asking a tokenizer what it does", "tokenizer")
    if "error" in reply:
        raise CannotTellError(str(reply["error"]))
    found: list[list[int]] = reply["found"]
    return found


def pre_tokenizer_name(tokenizer: Mapping[str, Any], usual: str) -> tuple[str, tuple[str, ...]]:
    """The name of the pre-tokenizer in tokenizer.json, and notes on it.

    :param usual: the name that is used if several split equally
    :raises FormatError: H104 if no declared pre-tokenizer splits like it
    """
    if not isinstance(tokenizer.get("pre_tokenizer"), dict):
        raise refused("tokenizer.json has no pre_tokenizer; use --pre to state how text is split")
    try:
        cuts = ask_library(only_pre_tokenizer(tokenizer), "cuts", PROBES)
    except MissingExtra:
        cuts = _cuts_of_known(tokenizer["pre_tokenizer"])
    except CannotTellError as error:
        raise refused(f"the pre_tokenizer of tokenizer.json cannot be used: {quote(str(error))}") from None
    names = [each.name for each in PRE_TOKENIZERS if [cuts_of(each, text) for text in PROBES] == cuts]
    if not names:
        known = ", ".join(each.name for each in PRE_TOKENIZERS)
        raise refused(f"the pre_tokenizer of tokenizer.json splits text like none of {known}; use --pre to choose one")
    return (usual, ()) if usual in names else (names[0], (f"text is split as {names[0]} does, not as {usual}",))


def only_pre_tokenizer(tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer that splits text like another one, but has only one token."""
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": tokenizer["pre_tokenizer"], "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }  # fmt: skip


def cuts_of(pre: PreTokenizer, text: str) -> list[int]:
    """Where a declared pre-tokenizer cuts a text."""
    places = [(0, len(text))]
    for split in map(expression, pre.splits):
        inner = []
        for start, stop in places:
            at = start
            for match in split.finditer(text[start:stop]):
                if match.end() > match.start():
                    if start + match.start() > at:
                        inner.append((at, start + match.start()))
                    inner.append((start + match.start(), start + match.end()))
                    at = start + match.end()
            if at < stop:
                inner.append((at, stop))
        places = inner
    return [start for start, _ in places]


def _cuts_of_known(part: Mapping[str, Any]) -> list[list[int]]:
    """Without the library: the cuts of a pre-tokenizer whose expressions are exactly those of a declared one."""
    several = part.get("pretokenizers") if part.get("type") == "Sequence" else [part]
    found = tuple(
        str(each["pattern"].get("Regex"))
        for each in several or ()
        if isinstance(each, dict) and each.get("type") == "Split" and isinstance(each.get("pattern"), dict)
    )
    for pre in PRE_TOKENIZERS:
        if pre.splits == found:
            return [cuts_of(pre, text) for text in PROBES]
    raise MissingExtra("asking a tokenizer what it does", "tokenizer")
