"""How much memory a model takes in llama.cpp: its weights, and the cache of a context. Only the header is read.

`memory` adds up the tensors, each once, and computes the cache from the hyperparameters, as llama.cpp does for one
sequence: keys and values of as many cells as the context has tokens, rounded up to 256; in layers with a window, those of
the window and of one batch of 512; in recurrent layers a state in F32, whatever the context. Where the hyperparameters
follow from is the table of llama.cpp's loader (`schema.llama_cpp`), and for architectures that only forks have, their
declaration (`schema.architectures`). The cache of a graph that has anything else to keep is not known.

Buffers of intermediate results are left out: they depend on the device, the batch and the program.

Source: ggml-org/llama.cpp@0c1e570, src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp and
llama-hparams.cpp; held to the sizes that xllamacpp 2026.10.11549 logs (tests/inspect/test_memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.split_set import split_set
from i2s_spec.schema.architectures import declared_architecture, hyperparameters
from i2s_spec.schema.keys import MAX_LAYERS

#: Bytes of a block, and elements in it, by the type of the cache.
CACHE_TYPES: Final = {"f16": (2, 1), "q8_0": (34, 32)}

#: A cache has a multiple of so many cells, and room for a batch beside a window.
CELLS: Final = 256
BATCH: Final = 512

#: Keys of what some graphs keep beside keys, values and the states computed here, or share between layers.
_OTHER_STATES: Final = (
    "attention.kv_lora_rank", "attention.indexer.key_length", "attention.shared_kv_layers", "attention.compress_ratios",
    "wkv.head_size", "kda.head_dim", "shortconv.l_cache", "hyper_connection.count", "token_shift_count",
)  # fmt: skip

#: Architectures without a cache: each token sees all others, which are computed together.
_NO_CACHE: Final = frozenset({
    "bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe", "modern-bert",
    "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "wavtokenizer-dec",
})  # fmt: skip

#: Windows that the loader sets itself where the key has any.
_FIXED_WINDOWS: Final = {"llama4": 8192, "smallthinker": 4096}


class CachePart(NamedTuple):
    """What layers of one kind keep: `keys and values`, those `in windows`, or `recurrent state`; cells are tokens."""

    name: str
    layers: int
    cells: int
    bytes: int


class MemoryUse(NamedTuple):
    """The memory of a model with a context.

    :param weights: bytes of all tensors; None if the size of one is not known
    :param context: tokens
    :param cache_type: of keys and values
    :param cache: None if it is not known, for the reason `unknown`
    """

    weights: int | None
    context: int
    cache_type: str
    cache: tuple[CachePart, ...] | None
    unknown: str | None

    @property
    def cache_bytes(self) -> int | None:
        """Bytes of the cache, all parts together."""
        return None if self.cache is None else sum(part.bytes for part in self.cache)

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as plain data."""
        cache = None if self.cache is None else [part._asdict() for part in self.cache]
        return {**self._asdict(), "cache": cache, "cache_bytes": self.cache_bytes}


class UnknownCacheError(ValueError):
    """The cache of a model does not follow from its metadata; the reason, in words."""


def trained_context(file: File) -> int | None:
    """Return the context that a model was trained for, in tokens; None if the file does not say it."""
    name = file.metadata.short("general.architecture")
    found = file.metadata.short(f"{name}.context_length") if isinstance(name, str) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def memory(file: File, context: int, cache_type: str = "f16") -> MemoryUse:
    """Return the memory of a model for one sequence of a context.

    :param file: a file, or the first part of a split model, which stands for all of it
    :param context: tokens, 1 at least
    :param cache_type: a key of `CACHE_TYPES`
    """
    tensors = all_tensors(file)
    try:
        weights: int | None = sum(tensor.nbytes for tensor in tensors)
    except FormatError:
        weights = None
    cache, unknown = None, None
    try:
        cache = tuple(_cache(file, {tensor.raw_name for tensor in tensors}, context, CACHE_TYPES[cache_type]))
    except UnknownCacheError as error:
        unknown = str(error)
    except FormatError as error:
        unknown = error.message
    return MemoryUse(weights, context, cache_type, cache, unknown)


def all_tensors(file: File) -> list[Tensor]:
    """Return the tensors of a file; of the first part of a split model, with the others beside it, those of all
    parts.
    """
    whole = split_set(file)
    parts = whole.files() if whole is not None and whole.is_whole else [file]
    return [tensor for part in parts for tensor in part.tensors.rows]


def _padded(cells: int) -> int:
    return -(-cells // CELLS) * CELLS


def _cache(file: File, names: set[bytes], context: int, block: tuple[int, int]) -> Iterator[CachePart]:
    """Yield the parts of the cache.

    :raises UnknownCacheError: where they do not follow from the metadata
    :raises FormatError: for metadata that do not fit
    """
    layers = _layers(file, names)
    cells = _padded(context)
    window = min(cells, _padded(layers.window + BATCH))
    for name, windowed, cells_of in (("keys and values", False, cells), ("keys and values in windows", True, window)):
        of_kind = [each for each in layers.attention if each.windowed is windowed]
        for each in of_kind:
            if each.head % block[1]:
                raise UnknownCacheError(f"heads of {counted(each.head, 'element')} are not whole blocks of {block[1]}")
        if of_kind:
            size = sum(each.width for each in of_kind) // block[1] * block[0] * cells_of
            yield CachePart(name, len(of_kind), cells_of, size)
    if layers.recurrent:
        yield CachePart("recurrent state", layers.recurrent, 1, 4 * layers.recurrent * layers.state)


class _AttentionLayer(NamedTuple):
    """What a layer caches of each token: elements of all keys and values; the width of a key head; whether in a window."""

    width: int
    head: int
    windowed: bool


class _Layers(NamedTuple):
    """The layers that attend, the window of some, the number of recurrent ones, and elements of the state of each."""

    attention: list[_AttentionLayer]
    window: int = 0
    recurrent: int = 0
    state: int = 0


def _layers(file: File, names: set[bytes]) -> _Layers:
    """Return the values that the layers of a model cache.

    :raises UnknownCacheError: where that does not follow from the metadata
    :raises FormatError: for metadata that do not fit
    """
    from i2s_spec.schema.llama_cpp import table

    prefix = file.metadata.short("general.architecture")
    if not isinstance(prefix, str) or not names:
        raise UnknownCacheError("the file holds no model")
    declared = declared_architecture(prefix, file.metadata, (name.decode("utf-8", "replace") for name in names))
    loader = table().architecture(prefix)
    if loader is not None:
        return _by_loader(file, loader)
    if declared is None:
        raise UnknownCacheError(f"architecture {quote(prefix, 64, bare=True)} is not known")
    sizes = hyperparameters(file.metadata, architecture=declared)
    each = (sizes.at(i) for i in range(sizes.layers))
    return _Layers([_AttentionLayer(h.k_width + h.v_width, h.head_dim, False) for h in each])


def _by_loader(file: File, loader: Any) -> _Layers:
    """Return the values that layers cache by the table of llama.cpp's loader.

    :raises UnknownCacheError: where a value is missing, or the graph keeps something else
    """
    from i2s_spec.schema.expressions import UnknownValue, compiled
    from i2s_spec.schema.llama_cpp import Demands

    if loader.name in _NO_CACHE:
        return _Layers([])
    read = {key.name.removeprefix(f"{loader.name}.") for key in loader.keys}
    for key in _OTHER_STATES:
        if key in read:
            raise UnknownCacheError(f"architecture {loader.name} keeps more than keys, values and states ({key})")
    demands = Demands(loader, _Contents(file))

    def size(text: str) -> int:
        value = demands.evaluate(compiled(text))
        if value is UnknownValue or not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise UnknownCacheError(f"{text.partition('[')[0]} of the model is not known")
        return int(value)

    count = size("n_layer")
    if not 0 < count <= MAX_LAYERS:
        raise UnknownCacheError(f"there cannot be {counted(count, 'layer')}")
    window = _window(file, loader.name) if "attention.sliding_window" in read else 0
    attention = []
    states = "ssm.conv_kernel" in read
    alone = not size("n_head_arr[0]")  # no layer attends
    recurrent = [i for i in range(count) if alone or size(f"is_recr_impl[{i}]")]
    if states is not bool(recurrent):
        raise UnknownCacheError(f"which layers of architecture {loader.name} keep a state is not known")
    for i in sorted(set(range(count)).difference(recurrent)):
        windowed = bool(window and size(f"is_swa_impl[{i}]"))
        of = "swa" if windowed else "full"
        head = size(f"n_embd_head_k_{of}")
        both = head + size(f"n_embd_head_v_{of}")
        attention.append(_AttentionLayer(both * size(f"n_head_kv_arr[{i}]"), head, windowed))
    state = 0
    if recurrent:
        inner, width = size("ssm_d_inner"), size("ssm_d_state")
        groups = size("ssm_n_group") if "ssm.group_count" in read else 0
        state = max(size("ssm_d_conv") - 1, 0) * (inner + 2 * groups * width) + inner * width
    return _Layers(attention, window, len(recurrent), state)


def _window(file: File, prefix: str) -> int:
    found = file.metadata.short(f"{prefix}.attention.sliding_window")
    return _FIXED_WINDOWS.get(prefix, found) if isinstance(found, int) and 0 < found < 1 << 32 else 0


class _Contents:
    """What the expressions of the table are evaluated on: keys that are numbers, and arrays of a number for each layer."""

    tokens: int | None = None

    def __init__(self, file: File) -> None:
        self._metadata = file.metadata

    def value(self, key: str) -> Any:
        from i2s_spec.schema.llama_cpp import KeyContents

        if key not in self._metadata:
            return None
        entry, value = self._metadata.entry(key), self._metadata.short(key)
        if entry.label.startswith("arr") and not entry.label.startswith(("arr[str]", "arr[arr")):
            value = list(map(int, self._metadata.decode(entry, 2 * MAX_LAYERS))) if "f" not in entry.label else None
        return KeyContents(entry.label, entry.count, value)

    def ne(self, tensor: str) -> tuple[int, ...] | None:
        return None
