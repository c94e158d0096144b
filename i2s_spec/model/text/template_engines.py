"""A file's chat template in the engines that render it: Jinja as transformers runs it, and llama.cpp's own.

`template_checks` renders `CONVERSATIONS` with both, each in a process of its own with limits, and compares the texts, the
token ids of both tokenizers, and how many first tokens (BOS) a conversation gets. Needs the extra `[chat]` for Jinja and
`[runtimes]` (xllamacpp) for llama.cpp; what is not installed is not run, and reported.

llama.cpp gets a model of zeros with the tokenizer and the template of the file (`write_stand_in`), because it loads no
I2_S, and a whole model takes time. A template that reaches for the interpreter or loops without end (S201, S202), or that
Jinja had to stop, is given to no other engine.

    >>> import io
    >>> from i2s_spec.convert.new import new
    >>> from i2s_spec.gguf.reader import open as open_file
    >>> target = io.BytesIO()
    >>> _ = new(target, "llama", layers=1)
    >>> found = template_checks(open_file(target.getvalue()), engines=("jinja",))
    >>> found.same, found.conversations[0].jinja.text
    (None, 'User: What is a trit?<|eot_id|>Assistant: ')
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import FormatError, SettingError, counted, quote
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.analysis.template_hazards import LOOKED_AT, hazards
from i2s_spec.linter.rules.template import template_reaches_out, template_runs_long
from i2s_spec.model.text.chat import TOOLS_KEY, ask_engine, context_of, template_of
from i2s_spec.model.tokenizer.tokenizer import Tokenizer, load_tokenizer
from i2s_spec.model.tokenizer.vocabulary import MOST_BYTES, MOST_TOKENS, Vocabulary

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: Characters of a rendered conversation; real ones have some hundreds.
MOST_CHARACTERS: Final = 1 << 16
#: What llama.cpp may use: seconds of processor time, bytes of address space.
SECONDS: Final = 30.0
MEMORY_BYTES: Final = 2 << 30

#: Names of further conversations with the same difference that are shown; more are counted.
SHOWN: Final = 3

#: Variables that llama.cpp's server sets by default and transformers does not, and their values in words.
_SET: Final = {"enable_thinking": "to true", "date_string": "to the date of today"}

#: Special tokens: the name in the file's key, and the variable in a template.
_SPECIAL: Final = {
    "bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "seperator": "sep_token", "padding": "pad_token",
    "mask": "mask_token",
}  # fmt: skip

_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "weigh",
        "description": "Weigh a matrix: “rows” < 3 & 'columns'.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Its name"}, "rows": {"type": "integer"}},
            "required": ["name"],
        },
    },
}


def _say(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _called(arguments: Any) -> tuple[dict[str, Any], ...]:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weigh", "arguments": arguments}}
    return (
        _say("user", "Weigh Größe."),
        _say("assistant", "", tool_calls=[call]),
        _say("tool", '{"weight": 7}', name="weigh", tool_call_id="abcdefghi"),
    )


class SampleConversation(NamedTuple):
    """A conversation that is rendered.

    :param answer: `add_generation_prompt`
    :param tools: the tools that are offered
    :param needs: what a template must mention to support it
    :param plain: the messages with tool calls as objects, which transformers passes; OpenAI's interface, and so
        `messages`, has them as text
    """

    name: str
    messages: tuple[dict[str, Any], ...]
    answer: bool = True
    tools: tuple[dict[str, Any], ...] = ()
    needs: str = ""
    plain: tuple[dict[str, Any], ...] = ()


_QUESTION: Final = _say("user", "What is a trit?")
_TURNS: Final = (_QUESTION, _say("assistant", "A digit of three values."), _say("user", "Which?"))
_PARTS: Final = ("What is a trit?", "And a bit?")
_ARGUMENTS: Final = {"name": "Größe", "rows": 2}

#: The conversations, the most usual first.
CONVERSATIONS: Final = (
    SampleConversation("a question", (_QUESTION,)),
    SampleConversation("a question without add_generation_prompt", (_QUESTION,), False),
    SampleConversation("several turns", _TURNS),
    SampleConversation("a whole conversation without add_generation_prompt", _TURNS[:2], False),
    SampleConversation("a system message", (_say("system", "Be brief."), *_TURNS)),
    SampleConversation("a system message without add_generation_prompt", (_say("system", "Be brief."), *_TURNS), False),
    SampleConversation("a system message alone", (_say("system", "Be brief."),)),
    SampleConversation("blanks and line ends", (_say("user", "  a\n\n b \n"), _say("assistant", " c\n"), _QUESTION)),
    SampleConversation("quotes, signs and scripts", (_say("user", "\"it's\" <b>&amp; {{ x }} \\n ü नी 三 🦙"),)),
    SampleConversation("an empty message", (_say("user", ""),)),
    SampleConversation("an empty system message", (_say("system", ""), _QUESTION)),
    SampleConversation("two questions in a row", (_QUESTION, _say("user", "And a bit?"))),
    SampleConversation(
        "content parts",
        (_say("user", [{"type": "text", "text": text} for text in _PARTS]),),
        needs="content",
    ),
    SampleConversation("a tool", (_QUESTION,), tools=(_TOOL,), needs="tools"),
    SampleConversation(
        "a call of a tool", _called(json.dumps(_ARGUMENTS, ensure_ascii=False)), tools=(_TOOL,), needs="tool_calls",
        plain=_called(_ARGUMENTS),
    ),
)  # fmt: skip


class Rendering(NamedTuple):
    """What an engine makes of a conversation: its text and the ids of its tokens, or why it refuses.

    `tokens` are those that the model gets; None if the text was not split.
    """

    text: str | None = None
    error: str = ""
    tokens: tuple[int, ...] | None = None


class RenderingDifference(NamedTuple):
    """The first difference of two renderings, and both sides from there on, escaped.

    `kind` is `text`, `tokens` (of the same text, by this package's tokenizer and llama.cpp's) or `refusal`, which has no
    place; `at` counts characters of Jinja's text, or tokens. `cause` is why, where it is known.
    """

    kind: str
    at: int
    jinja: str
    llama_cpp: str
    cause: str = ""

    @property
    def words(self) -> str:
        """Where it is, both sides, and the cause if it is known."""
        first, place = ("this package", "token") if self.kind == "tokens" else ("Jinja", "character")
        where = "" if self.kind == "refusal" else f"{place} {self.at:,}: "
        cause = f"; {self.cause}" if self.cause else ""
        return f"{where}{first} {self.jinja}, llama.cpp {self.llama_cpp}{cause}"


class ConversationRenderings(NamedTuple):
    """A conversation in the engines that were run, and the first difference."""

    name: str
    jinja: Rendering | None
    llama_cpp: Rendering | None
    difference: RenderingDifference | None = None

    @property
    def compared(self) -> bool:
        """Whether both engines were run on it."""
        return self.jinja is not None and self.llama_cpp is not None


class TemplateChecks(NamedTuple):
    """The results.

    `not_run` says what was not run and why. `first_tokens` is the number of first tokens (BOS) of a conversation by
    program: `transformers` (apply_chat_template), `llama.cpp`, and `rendered, then tokenized`, as programs do that add
    special tokens to rendered text; empty if the file declares no tokenizer that is known here.
    """

    conversations: tuple[ConversationRenderings, ...] = ()
    not_run: tuple[str, ...] = ()
    first_tokens: dict[str, int] = {}  # noqa: RUF012  # a tuple's field

    @property
    def differing(self) -> tuple[ConversationRenderings, ...]:
        """The conversations that differ."""
        return tuple(each for each in self.conversations if each.difference is not None)

    @property
    def same(self) -> bool | None:
        """Whether all that were compared are the same; None if none was compared."""
        if not any(each.compared for each in self.conversations):
            return None
        return not self.differing and not self.other_first_token

    @property
    def other_first_token(self) -> bool:
        """Whether a conversation gets another number of first tokens by transformers than by llama.cpp."""
        return len({self.first_tokens.get(name) for name in ("transformers", "llama.cpp")} - {None}) > 1

    @property
    def split(self) -> bool:
        """Whether both tokenizers split what was compared."""
        both = ((pair.jinja, pair.llama_cpp) for pair in self.conversations if pair.compared)
        return all(each is None or each.text is None or each.tokens is not None for pair in both for each in pair)

    @property
    def broken(self) -> str:
        """Why no engine that was run renders any conversation; empty if one does, or none was run."""
        found = [each for pair in self.conversations for each in (pair.jinja, pair.llama_cpp) if each is not None]
        return found[0].error if found and all(each.text is None for each in found) else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {
            "same": self.same, "not_run": list(self.not_run), "first_tokens": self.first_tokens,
            "conversations": [
                {
                    "name": each.name,
                    "jinja": None if each.jinja is None else each.jinja._asdict(),
                    "llama_cpp": None if each.llama_cpp is None else each.llama_cpp._asdict(),
                    "difference": None if each.difference is None else each.difference._asdict(),
                }
                for each in self.conversations
            ],
        }  # fmt: skip

    @property
    def words(self) -> tuple[str, str]:
        """Whether it is the same to the engines, in words, and the style of the answer."""
        compared = counted(sum(each.compared for each in self.conversations), "conversation")
        if self.broken:
            return f"no engine that was run renders it: {_brief(self.broken)}", "red"
        if self.same is None:
            by_jinja = f": {counted(len(self.conversations), 'conversation')} rendered by Jinja"
            return f"not compared{by_jinja if self.conversations else ''}", "yellow"
        if self.same:
            what = "the same texts and tokens" if self.split else "the same texts; their tokens were not compared"
            return f"yes: {compared}, {what} by transformers' Jinja and by llama.cpp", "green"
        if self.differing:
            count = len(self.differing)
            return f"no: {count:,} of {compared} {'differs' if count == 1 else 'differ'}", "yellow"
        return f"the text of {compared} is; the number of first tokens is not", "yellow"

    def remarks(self) -> Iterator[tuple[str, str]]:
        """Yield the first difference, the first tokens, and what was not run, each with its style."""
        by_cause: dict[str, list[ConversationRenderings]] = {}
        for each in self.differing:
            by_cause.setdefault(each.difference.cause if each.difference is not None else "", []).append(each)
        for (first, *others), shown in ((group, group[0].difference) for group in by_cause.values()):
            names = f"; also {'; '.join(each.name for each in others)}" if 0 < len(others) <= SHOWN else ""
            more = f"; and {counted(len(others), 'more conversation')}" if len(others) > SHOWN else names
            yield f"{first.name}, {'' if shown is None else shown.words}{more}", "yellow"
        if len(set(self.first_tokens.values())) > 1:
            counts = ", ".join(f"{count} ({name})" for name, count in self.first_tokens.items())
            yield f"first tokens (BOS) of a conversation: {counts}", "yellow"
        yield from ((f"not run: {why}", "") for why in self.not_run)


def _brief(error: str) -> str:
    """Return the last line of an error, escaped: llama.cpp shows the place before it."""
    return quote(error.strip().rpartition("\n")[2], 200)


def template_checks(file: File, engines: Collection[str] = ("jinja", "llama.cpp")) -> TemplateChecks | None:
    """Render `CONVERSATIONS` with the template of a file, and compare; None if it has no template.

    :param file: an open file, which need not be sound
    :param engines: those that are run, if they are installed; llama.cpp only after Jinja
    """
    template = template_of(file.metadata)
    if template is None:
        return None
    with_tools = template_of(file.metadata, TOOLS_KEY)
    templates = [template] if with_tools is None else [template, with_tools]
    refused = next(filter(None, map(_refused, templates)), "")
    if refused:
        return TemplateChecks(not_run=(f"any engine: {refused}",))
    chosen = {each.name: len(templates) - 1 if each.tools else 0 for each in CONVERSATIONS}
    asked = [each for each in CONVERSATIONS if each.needs in templates[chosen[each.name]]]
    not_run = [
        f"{each.name}: the template does not mention {each.needs}" for each in CONVERSATIONS if each not in asked
    ]
    words = _Words(file)
    if words.tokenizer is None:
        not_run.append(f"this package's tokenizer: {words.why_not}")
    forms = list(_forms(templates, asked, chosen, words.texts))
    by_jinja, why = _by_jinja(templates, forms, words)
    if why:
        not_run.append(why)
    for each in [each for each in asked if each.needs == "content"]:
        if not all(_takes_parts(found) for found, _ in by_jinja[each.name]):
            asked.remove(each)
            not_run.append(f"{each.name}: the template takes texts only")
    by_llama_cpp: dict[str, Rendering] = {}
    if not why and "llama.cpp" in engines:
        by_llama_cpp, why = _by_llama_cpp(file, asked)
        if why:
            not_run.append(f"llama.cpp: {why}")
    pairs = (_pair(each.name, by_jinja[each.name], by_llama_cpp.get(each.name), words) for each in asked)
    conversations = tuple(pair for pair in pairs if pair.jinja is not None)
    return TemplateChecks(conversations, tuple(not_run), _first_tokens(conversations, words))


def _refused(template: str) -> str:
    """Return why a template is given to no engine; empty if it is."""
    data = template.encode("utf-8", "surrogateescape")
    if len(data) > LOOKED_AT:
        return f"the template has {counted(len(data), 'byte')}, and the rules examine {LOOKED_AT:,}"
    for hazard in hazards(data):
        found = {"reach": template_reaches_out, "loop": template_runs_long}.get(hazard.kind)
        if found is not None:
            return f"the template has {quote(data[hazard.start : hazard.stop], 60)} ({found.code})"
    return ""


class _Words:
    """The tokens of a file: texts and ids of special ones by their variable in a template, and its tokenizer, if it is
    known here and sound; `why_not` says why not.
    """

    def __init__(self, file: File) -> None:
        self.texts: dict[str, str] = {}
        self.special: dict[str, int] = {}
        self.tokenizer: Tokenizer | None = None
        self.why_not = ""
        try:
            vocabulary = Vocabulary(file)
            found = {name: vocabulary.special(key) for key, name in _SPECIAL.items()}
            self.special = {name: i for name, i in found.items() if i is not None}
            self.texts = {name: vocabulary.tokens[i] for name, i in self.special.items()}
            tokenizer = load_tokenizer(file)
            tokenizer.encode("a <b> \n", parse_special=True)
            self.tokenizer = tokenizer
        except (FormatError, SettingError) as error:
            self.why_not = str(error)

    def ids(self, text: str, special: bool) -> tuple[int, ...] | None:
        """Return the ids of a rendered text, with or without the tokens that the tokenizer adds; None where it
        cannot split it.
        """
        if self.tokenizer is None:
            return None
        try:
            return tuple(self.tokenizer.encode(text, add_special=special, parse_special=True))
        except (FormatError, SettingError):
            return None


def _takes_parts(found: Rendering) -> bool:
    """Whether a template writes the texts of content parts, and not the list itself or nothing."""
    text = found.text or ""
    return all(part in text for part in _PARTS) and "'type'" not in text and '"type"' not in text


# --- engines ---------------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """A conversation as Jinja gets it: number of the template, variables, the cause of a difference that ends with them."""

    name: str
    template: int
    context: dict[str, Any]
    cause: str = ""


def _forms(
    templates: Sequence[str], asked: Sequence[SampleConversation], chosen: dict[str, int], special: dict[str, str]
) -> Iterator[_Form]:
    """Yield the forms of each conversation: tool calls as objects and as text, without and with variables of
    llama.cpp.
    """
    values = {"enable_thinking": True, "date_string": datetime.now().strftime("%d %b %Y")}
    found = {name: values[name] for name in _SET if name in "".join(templates)}
    words = " and ".join(f"{name} {_SET[name]}" for name in found)
    settings = {"": {}, **({f"llama.cpp sets {words}": found} if found else {})}
    for each in asked:
        for cause, more in settings.items():
            for messages in (each.plain, each.messages):
                if messages:
                    context = context_of(messages, special, each.answer, each.tools or None) | more
                    yield _Form(each.name, chosen[each.name], context, cause)


def _by_jinja(
    templates: Sequence[str], forms: Sequence[_Form], words: _Words
) -> tuple[dict[str, list[tuple[Rendering, str]]], str]:
    """Return the renderings of each conversation in its forms, each with its cause, and why llama.cpp is not to be
    asked.
    """
    contexts = [(form.template, form.context) for form in forms]
    asking = {"engine": "jinja", "templates": templates, "contexts": contexts, "characters": MOST_CHARACTERS}
    replies, ended = ask_engine(asking)
    found: dict[str, list[tuple[Rendering, str]]] = {form.name: [] for form in forms}
    if replies and "missing" in replies[0]:
        return found, "Jinja, and so llama.cpp: pip install 'i2s-spec[chat]'"
    for form, reply in zip(forms, replies, strict=False):
        text = reply.get("text")
        ids = None if text is None else words.ids(text, False)
        found[form.name].append((Rendering(text, reply.get("error", ""), ids), form.cause))
    if ended and len(replies) < len(forms):
        form = forms[len(replies)]
        found[form.name].append((Rendering(error=ended), form.cause))
    stopped = ended or any(reply.get("stopped") for reply in replies)
    return found, "llama.cpp: Jinja had to stop the template" if stopped else ""


def _by_llama_cpp(file: File, asked: Sequence[SampleConversation]) -> tuple[dict[str, Rendering], str]:
    """Return the renderings of llama.cpp, and why there are none, or not all."""
    with tempfile.TemporaryDirectory(prefix="i2s-") as folder:
        path = Path(folder) / "model.gguf"
        try:
            write_stand_in(file, path)
        except (FormatError, ValueError, OSError) as error:
            return {}, str(error)
        bodies = [
            {
                "messages": each.messages,
                "add_generation_prompt": each.answer,
                **({"tools": each.tools} if each.tools else {}),
            }
            for each in asked
        ]
        asking = {"engine": "llama.cpp", "model": str(path), "bodies": bodies, "characters": MOST_CHARACTERS}
        replies, ended = ask_engine(asking, SECONDS, MEMORY_BYTES)
    if replies and "missing" in replies[0]:
        return {}, "pip install 'i2s-spec[runtimes]'"
    if replies and "unusable" in replies[0]:
        return {}, f"it does not load the vocabulary: {quote(replies[0]['unusable'], 200)}"
    if replies and "refused" in replies[0]:
        replies = [{"error": replies[0]["refused"]}] * len(asked)
    found = {
        each.name: Rendering(
            reply.get("text"), reply.get("error", ""), None if reply.get("tokens") is None else tuple(reply["tokens"])
        )
        for each, reply in zip(asked, replies, strict=False)
    }
    if ended and len(replies) < len(asked):
        ended = f"{ended}, in the conversation '{asked[len(replies)].name}'"
    return found, ended


def write_stand_in(file: File, target: Path) -> None:
    """Write a model of zeros with the tokenizer and the chat templates of a file, for programs that want a whole model.

    :raises ValueError: for a file without tokens, with more than `MOST_TOKENS`, or in big-endian byte order
    :raises FormatError: for a file that cannot be read
    """
    if file.byte_order != "little":
        raise ValueError("the file is big-endian")
    metadata, width = file.metadata, 32
    tokens = metadata.entry("tokenizer.ggml.tokens").count if "tokenizer.ggml.tokens" in metadata else 0
    if not 0 < tokens <= MOST_TOKENS:
        raise ValueError(f"the file has {counted(tokens, 'token')}")
    with Writer(target) as writer:
        writer.add("general.architecture", "llama")
        sizes = {
            "context_length": 64, "embedding_length": width, "block_count": 1, "feed_forward_length": width,
            "attention.head_count": 1, "rope.dimension_count": width, "vocab_size": tokens,
        }  # fmt: skip
        for name, size in sizes.items():
            writer.add(f"llama.{name}", size)
        writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5)
        room = MOST_BYTES
        for key in metadata:
            if key == "general.name" or (key.startswith("tokenizer.") and key != "tokenizer.huggingface.json"):
                span = metadata.entry(key).span
                room -= span.stop - span.start
                if room < 0:
                    raise ValueError(f"its tokenizer has more than {counted(MOST_BYTES, 'byte')}")
                writer.add_raw(file.source.read(span.start, span.stop - span.start))
        square, line = (width, width), (width,)
        shapes = {
            "token_embd": (tokens, width), "output_norm": line, "blk.0.attn_norm": line, "blk.0.ffn_norm": line,
            **dict.fromkeys((f"blk.0.attn_{part}" for part in ("q", "k", "v", "output")), square),
            **dict.fromkeys((f"blk.0.ffn_{part}" for part in ("gate", "up", "down")), square),
        }  # fmt: skip
        for name, shape in shapes.items():
            size = math.prod(shape) * (4 if len(shape) == 1 else 2)
            writer.add_tensor(f"{name}.weight", shape, "F32" if len(shape) == 1 else "F16", bytes(size))


# --- comparison ------------------------------------------------------------------------------------------------------


def _pair(
    name: str, forms: Sequence[tuple[Rendering, str]], llama_cpp: Rendering | None, words: _Words
) -> ConversationRenderings:
    """Return both renderings: of the forms of a conversation the one like llama.cpp's, or else the first that is
    rendered."""
    usual = [each for each, cause in forms if not cause]
    usable = [each for each in usual if each.text is not None] or usual
    if not usable or llama_cpp is None:
        return ConversationRenderings(name, usable[0] if usable else None, llama_cpp)
    differences = [(each, _difference(each, llama_cpp, words)) for each in usable]
    jinja, difference = next((pair for pair in differences if pair[1] is None), differences[0])
    if difference is not None:
        causes = (cause for each, cause in forms if cause and _difference(each, llama_cpp, words) is None)
        difference = difference._replace(cause=next(causes, ""))
    return ConversationRenderings(name, jinja, llama_cpp, difference)


def _difference(jinja: Rendering, other: Rendering, words: _Words) -> RenderingDifference | None:
    if jinja.text is None or other.text is None:
        sides = [
            f"refuses it: {_brief(each.error)}" if each.text is None else f"gives {quote(each.text, 60)}"
            for each in (jinja, other)
        ]
        return RenderingDifference("refusal", 0, *sides) if sides[0][0] != sides[1][0] else None
    text, cut, tokens = jinja.text, 0, other.tokens or ()
    if text != other.text:  # llama.cpp takes away what its tokenizer adds
        bos, eos = words.texts.get("bos_token", ""), words.texts.get("eos_token", "")
        if tokens[:1] == (words.special.get("bos_token"),) and not other.text.startswith(bos) and text.startswith(bos):
            text, cut = text.removeprefix(bos), len(bos)
        if tokens[-1:] == (words.special.get("eos_token"),) and not other.text.endswith(eos):
            text = text.removesuffix(eos)
    if text != other.text:
        at = _first_difference(text, other.text)
        around = slice(max(0, at - 12), at + 28)
        return RenderingDifference("text", at + cut, quote(text[around]), quote(other.text[around]))
    ours = words.ids(other.text, True)
    if ours is None or other.tokens is None or ours == other.tokens:
        return None
    at = _first_difference(ours, other.tokens)
    return RenderingDifference("tokens", at, *(str(list(ids[at : at + 4])) for ids in (ours, other.tokens)))


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the index at which two sequences begin to differ."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _first_tokens(pairs: Sequence[ConversationRenderings], words: _Words) -> dict[str, int]:
    """Count the first tokens (BOS) of a conversation, by program; of the first conversation that Jinja renders."""
    pair = next((each for each in pairs if each.jinja is not None and each.jinja.text is not None), None)
    bos = words.special.get("bos_token")
    if bos is None or pair is None or pair.jinja is None or pair.jinja.text is None:
        return {}
    found = {
        "transformers": pair.jinja.tokens,
        "llama.cpp": None if pair.llama_cpp is None else pair.llama_cpp.tokens,
        "rendered, then tokenized": words.ids(pair.jinja.text, True),
    }
    return {
        name: next((i for i, token in enumerate(ids) if token != bos), len(ids))
        for name, ids in found.items()
        if ids is not None
    }
