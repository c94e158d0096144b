"""What a model is, in a few sentences: its name, sizes, types of tensors, tokenizer and memory. Only the header is read."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from i2s_spec.draw.text import size_words
from i2s_spec.errors import counted, quote
from i2s_spec.inspect.memory import MemoryUse, memory, trained_context

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: Tensors that are examined: no model has more.
_MOST: Final = 65_536

#: The context for which a cache is computed, if the model was not trained for a shorter one.
_CONTEXT: Final = 4096

#: Keys of the architecture that give sizes, and what one is called, and several are.
_SIZES: Final = (
    ("block_count", "layer", "layers"), ("embedding_length", "wide", "wide"),
    ("feed_forward_length", "in the feed-forward network", "in the feed-forward network"),
    ("attention.head_count", "head", "heads"),
    ("attention.head_count_kv", "of them for keys and values", "of them for keys and values"),
    ("expert_count", "expert", "experts"), ("context_length", "token of context", "tokens of context"),
)  # fmt: skip


def summary(file: File) -> tuple[str, ...]:
    """Summarize the model in a file: text from the file is quoted; empty without tensors or an architecture."""
    architecture = file.metadata.short("general.architecture")
    if not isinstance(architecture, str) or not file.index.tensors or file.fault is not None:
        return ()
    sizes = [
        counted(value, one, several)
        for key, one, several in _SIZES
        if isinstance(value := file.metadata.short(f"{architecture}.{key}"), int) and not isinstance(value, bool)
    ]
    name = file.metadata.short("general.name")
    named = f" called {quote(name, 64)}" if isinstance(name, str) and name else ""
    tensors = list(islice(file.tensors.rows, _MOST))
    weights = sum(tensor.elements for tensor in tensors)
    matrices = Counter(tensor.kind for tensor in tensors if len(tensor.ne) > 1 and tensor.raw_name.startswith(b"blk."))
    tables = Counter(
        tensor.kind for tensor in tensors if len(tensor.ne) > 1 and not tensor.raw_name.startswith(b"blk.")
    )
    types = [f"matrices {_listed(matrices)}"] if matrices else []
    types += [f"tables {_listed(tables)}"] if tables else []
    found = [f"a model of architecture {quote(architecture, 64, bare=True)}{named}: {', '.join(sizes)}"]
    found.append(f"{counted(weights, 'weight')}: {'; '.join(types)}" if types else counted(weights, "weight"))
    tokenizer = file.metadata.short("tokenizer.ggml.model")
    if isinstance(tokenizer, str):
        pre = file.metadata.short("tokenizer.ggml.pre")
        split = f", split as {quote(pre, 32, bare=True)}" if isinstance(pre, str) else ""
        chat = "a chat template" if "tokenizer.chat_template" in file.metadata else "no chat template"
        found.append(f"tokenizer {quote(tokenizer, 32, bare=True)}{split}; {chat}")
    if (context := trained_context(file)) is not None:
        found.append(_memory_words(memory(file, min(context, _CONTEXT)), context))
    return tuple(found)


def _memory_words(found: MemoryUse, context: int) -> str:
    """How much memory a model takes, in a sentence."""
    weights = "of weights of unknown size" if found.weights is None else f"{size_words(found.weights)} of weights"
    tokens = f"{'its ' if found.context == context else ''}{counted(found.context, 'token')}"
    if found.cache_bytes is None:
        cache = "a cache of unknown size"
    elif all(part.name == "recurrent state" for part in found.cache or ()):
        cache = f"{size_words(found.cache_bytes)} of recurrent state" if found.cache else "no cache"
    else:
        cache = f"{size_words(found.cache_bytes)} of cache in F16 for {tokens}"
    return f"memory, as llama.cpp lays it out: {weights} and {cache}; buffers of intermediate results come on top"


def _listed(types: Counter[str]) -> str:
    return " and ".join(f"{name} ({count:,})" for name, count in types.most_common())
