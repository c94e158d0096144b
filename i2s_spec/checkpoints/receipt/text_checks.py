"""This module compares how a file and its checkpoint treat texts: token ids, special tokens, the chat template (check f).

The ids of the checkpoint are those of the library `tokenizers` with its tokenizer.json. For a tokenizer.model there is
no independent program here, so only its pieces are compared, one by one; the result says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from i2s_spec.checkpoints.receipt.check_result import NOT_MADE, Check, concluded
from i2s_spec.checkpoints.source.bounded_json import MOST_TOKENIZER, read_bytes
from i2s_spec.checkpoints.vocabulary.pre_tokenizer_probe import (
    PROBES,
    CannotTellError,
    ask_library,
    cuts_of,
    only_pre_tokenizer,
)
from i2s_spec.checkpoints.vocabulary.sentencepiece_model import from_tokenizer_model
from i2s_spec.errors import FormatError, MissingExtra, SettingError, counted, quote
from i2s_spec.model.text.chat_template import Message, render
from i2s_spec.model.tokenizer.tokenizer import CHECK_TEXT, load_tokenizer

if TYPE_CHECKING:
    from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
    from i2s_spec.gguf.reader import File

_KEY: Final = "tokenizer.chat_template"

#: The parts of the texts.
_PARTS: Final = (
    "The weights are ternary.", " two  spaces", "\n\nnew\tline\r\n", "don't we'LL I'm", "12345678 and 3.14", "(a[0]->b!=c)",
    "Größe naïve façade", "нещо друго", "你好，世界", "कान्हा", "🦙🚀", "    indented = True", "", "x", " ", "...!?",
    "https://example.org/a?b=c&d=e", "CamelCase_snake_case", "''''re  end   ", CHECK_TEXT,
)  # fmt: skip

#: Conversations with which the templates are rendered.
_CONVERSATIONS: Final = (
    [Message("user", "Hello")],
    [Message("user", "Hello"), Message("assistant", "Hi!"), Message("user", " What are trits? ")],
    [Message("system", "Be brief."), Message("user", "Hello")],
)


def texts(special: list[str]) -> list[str]:
    """200 texts: all parts, pairs of them, and special tokens between them."""
    found = list(_PARTS)
    for first, one in enumerate(_PARTS):
        for step in (1, 3, 7):
            found.append(one + _PARTS[(first + step) % len(_PARTS)])
    marks = special[:40] or ["<s>"]
    number = 0
    while len(found) < 200:
        found.append(_PARTS[number % len(_PARTS)] + marks[number % len(marks)] + _PARTS[(number * 3 + 1) % len(_PARTS)])
        number += 1
    return found


def text_check(file: File, folder: CheckpointFolder) -> Check:
    """Check f."""
    problems: list[str] = []
    remarks: list[str] = []
    try:
        if folder.tokenizer is not None:
            remarks.append(_ids(file, folder, problems))
        elif "tokenizer.model" in folder.names:
            remarks.append(_pieces(file, folder, problems))
        else:
            return Check("f", NOT_MADE, "the checkpoint has no tokenizer")
    except MissingExtra as error:
        return Check("f", NOT_MADE, str(error))
    except (CannotTellError, FormatError, SettingError) as error:
        problems.append(f"the texts cannot be tokenized: {error}")
    _special(file, folder, problems)
    remarks.append(_template(file, folder, problems))
    return concluded("f", problems, "; ".join(remarks))


def _ids(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    assert folder.tokenizer is not None
    added = folder.tokenizer.get("added_tokens") or ()
    special = [str(each.get("content")) for each in added if isinstance(each, dict)]
    some = texts(special)
    theirs = ask_library(folder.tokenizer, "ids", some)
    tokenizer = load_tokenizer(file)
    for text, want in zip(some, theirs, strict=True):
        found = tokenizer.encode(text, parse_special=True)
        if found != want:
            problems.append(
                f"the text {quote(text, 40)} has the ids {found[:8]}, and {want[:8]} by the library tokenizers"
            )
    if isinstance(folder.tokenizer.get("pre_tokenizer"), dict) and tokenizer.choice is not None:
        # With a small vocabulary, several pre-tokenizers give the same ids.
        cuts = ask_library(only_pre_tokenizer(folder.tokenizer), "cuts", PROBES)
        if cuts != [cuts_of(tokenizer.choice.pre, text) for text in PROBES]:
            problems.append(
                f"tokenizer.ggml.pre is {tokenizer.choice.pre.name}, which splits text in another way than tokenizer.json"
            )
    return f"the ids of {counted(len(some), 'text')} are those of the library tokenizers"


def _pieces(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    data = read_bytes(folder.file("tokenizer.model"), MOST_TOKENIZER)
    size = int(folder.config["vocab_size"])
    want = from_tokenizer_model(data, folder.tokenizer_config, folder.json_of("added_tokens.json"), size)
    found = file.metadata
    for key, values in (("tokens", want.tokens), ("token_type", want.types)):
        if list(found.get(f"tokenizer.ggml.{key}", ())) != values:
            problems.append(f"tokenizer.ggml.{key} is not what tokenizer.model says")
    scores = [round(float(each), 4) for each in found.get("tokenizer.ggml.scores", ())]
    if scores != [round(each, 4) for each in want.scores or ()]:
        problems.append("tokenizer.ggml.scores is not what tokenizer.model says")
    for key, flag in want.flags.items():
        if found.get(f"tokenizer.ggml.{key}") != flag:
            problems.append(f"tokenizer.ggml.{key} is {found.get(f'tokenizer.ggml.{key}')}, and {flag} by the files")
    return (
        f"{counted(len(want.tokens), 'piece is', 'pieces are')} those of tokenizer.model; no "
        f"other program was used for the ids of texts"
    )


def _special(file: File, folder: CheckpointFolder, problems: list[str]) -> None:
    """Compare the ids of the special tokens: by their texts, else by the ids in the configurations."""
    tokens: Any = file.metadata.get("tokenizer.ggml.tokens", ())
    settings, places = folder.tokenizer_config, (folder.config, folder.generation)
    for key, word in (("bos", "bos"), ("eos", "eos"), ("padding", "pad"), ("unknown", "unk")):
        text = settings.get(f"{word}_token")
        text = text.get("content") if isinstance(text, dict) else text
        found = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        numbers = [config[f"{word}_token_id"] for config in places if config.get(f"{word}_token_id") is not None]
        if isinstance(text, str):
            if found is None or not 0 <= found < len(tokens) or tokens[found] != text:
                problems.append(f"tokenizer.ggml.{key}_token_id is {found}, which is not {quote(text)}")
        elif numbers:
            want = numbers[0][0] if isinstance(numbers[0], list) else numbers[0]
            if found != want:
                problems.append(f"tokenizer.ggml.{key}_token_id is {found}; the configuration says {want}")
    ends = folder.generation.get("eos_token_id")
    stops = load_tokenizer(file).ends if tokens else frozenset()
    for number in ends if isinstance(ends, list) else []:
        if number not in stops:
            problems.append(
                f"token {number} ends a text according to generation_config.json, but not according to the file"
            )


def _template(file: File, folder: CheckpointFolder, problems: list[str]) -> str:
    want, found = folder.chat_template, file.metadata.get(_KEY)
    if want is None and found is None:
        return "there is no chat template"
    if want is None or found is None:
        problems.append(f"the chat template is only in the {'file' if want is None else 'checkpoint'}")
        return ""
    if want == found:
        try:
            render({_KEY: found}, _CONVERSATIONS[0], bos="<b>", eos="<e>")
        except (MissingExtra, FormatError) as error:
            return f"the chat template is the same text; it was not rendered: {error}"
        return "the chat template is the same text, and can be rendered"
    rendered = 0
    for conversation in _CONVERSATIONS:
        try:
            theirs = render({_KEY: want}, conversation, bos="<b>", eos="<e>")
        except MissingExtra:
            break
        except FormatError:
            continue  # a template may refuse a role
        rendered += 1
        try:
            ours = render({_KEY: found}, conversation, bos="<b>", eos="<e>")
        except FormatError as error:
            ours = str(error)
        if ours != theirs:
            problems.append(f"the chat template gives {quote(ours, 40)}, and {quote(theirs, 40)} in the checkpoint")
    if not rendered:
        problems.append("the chat template differs from that of the checkpoint; it was not rendered")
    return f"{counted(rendered, 'conversation is', 'conversations are')} rendered equally"
