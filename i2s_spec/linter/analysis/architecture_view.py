"""A file beside the declarations of its architecture: its sizes, its tensors, its vocabulary, its keys.

The rules on metadata, inventory and tokenizer share these results; each is computed once. A file is compared only if it
is a whole model of a declared architecture: an adapter, an importance matrix or one part of a split file lacks most of
a model, and that is no fault. `architecture_view` gives the `ArchitectureView` of a file, and its `keys` are the
`DeclaredKeys`: which declared keys exist, and their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf import strings
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Source
from i2s_spec.linter.analysis.context import LintContext, analysis, split_set
from i2s_spec.schema import keys, limits
from i2s_spec.schema.architectures import Architecture, hyperparameters
from i2s_spec.schema.inventory import TERNARY_TYPES, TensorSpec, stands_beside
from i2s_spec.schema.keys import MAX_LAYERS, MERGES, TOKENIZER_MODEL, TOKENS, Key
from i2s_spec.schema.types import VALUE_FORMATS, ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf._scanner import KeyValue
    from i2s_spec.schema.architectures import Hyperparameters

#: Tensor names that show a model of llama.cpp's family, or a checkpoint that was never converted to it.
MODEL_NAME: Final = re.compile(
    rb"(?:blk\.\d+\.(?:attn|ffn)|token_embd\.|output_norm\.|(?:model\.)?layers\.\d+\.|model\.embed_tokens\.)"
)
#: Those of them that need no regular expression.
_FIRST_NAMES: Final = (b"token_embd.", b"output_norm.")
#: Their prefixes.
_BEGINNINGS: Final = (*_FIRST_NAMES, b"blk.", b"layers.", b"model.")

#: Tokens that end a turn, in the vocabularies of chat models.
TURN_ENDS: Final = (b"<|eot_id|>", b"<|im_end|>", b"<end_of_turn>", b"<|end|>", b"<|endofturn|>")
#: Tokens that begin a text, and those that end one or a turn in it. <|endoftext|> does both.
TEXT_BEGINS: Final = (b"<|begin_of_text|>", b"<s>", b"<bos>")
TEXT_ENDS: Final = (b"<|end_of_text|>", b"</s>", b"<eos>", *TURN_ENDS)
#: How a newline is written in byte-level vocabularies and in SentencePiece ones.
NEWLINES: Final = {"gpt2": "\u010a".encode(), "llama": b"<0x0A>"}
#: Optional keys from which loaders derive shapes if they exist.
_SHAPING: Final = (".attention.head_count_kv", ".attention.key_length", ".attention.value_length")
#: The part that is in the name of every tensor that covers all experts.
_EXPERTS: Final = "_exps."


class Row(NamedTuple):
    """A tensor with its declaration: row in the table, name, shape, type, declaration, layer.

    `i` is below 0 for a tensor of another part of a split model, whose bytes are in another file: minus the part's number.
    """

    i: int
    name: str
    ne: tuple[int, ...]
    type: str
    number: int
    spec: TensorSpec | None
    layer: int | None

    @property
    def is_ternary(self) -> bool:
        return self.type in TERNARY_TYPES


class ArchitectureView:
    """One file with the declarations of its architecture; `keys` are its key-values."""

    def __init__(self, subject: LintContext) -> None:
        self.file = subject.file
        self.has_uncounted = subject.uncounted is not None
        self.name = subject.architecture
        self.architecture: Architecture | None = subject.declared
        self.keys = DeclaredKeys(subject.file, self.name, self.architecture)
        whole = split_set(subject)
        #: The parts of a split model, if this is the first of them and all are there.
        self.whole = whole if whole is not None and whole.complete else None
        self._kind = subject.kind

    # --- what kind of file ----------------------------------------------------------------------------------------

    @cached_property
    def holds_model(self) -> bool:
        """Whether the file is a model, of whatever architecture, and not something like an adapter.

        It is one if a tensor has a name that models of llama.cpp's family or checkpoints have.
        """
        if self.file.index.tensors > limits.MANY_TENSORS or self.file.fault is not None:
            return False
        if self._kind is None or not self._kind.is_model:
            return False
        if "split.no" in self.keys.places and self.keys.decoded(self.keys.places["split.no"]) != 0:
            return False
        if self.whole is not None:
            return any(
                MODEL_NAME.match(tensor.name.encode("utf-8", "surrogateescape")) for tensor in self.whole.tensors
            )
        tensor, count = self.file.index.tensor, self.file.index.tensors
        if any(
            tensor(i).name.startswith(_FIRST_NAMES) for i in range(min(count, 4))
        ):  # decides most models without regular expressions
            return True
        names = (name for i in range(count) if (name := tensor(i).name).startswith(_BEGINNINGS))
        return any(MODEL_NAME.match(name) for name in names)

    @property
    def is_text_model(self) -> bool:
        """Whether the file says that it is a model, or does not say what it is."""
        return self.file.index.tensors > 0 and self.keys.value("general.type") in (None, "model")

    @cached_property
    def is_declared(self) -> bool:
        """Whether the file is a model of a declared architecture."""
        return self.architecture is not None and self.holds_model

    def declares(self, row: Row) -> bool:
        """Whether the declared architecture, if there is one, has this tensor."""
        return row.spec is not None and self.takes(row.spec, row.layer)

    def takes(self, spec: TensorSpec, layer: int | None) -> bool:
        """Whether a layer of this file has a declared tensor, by the kind of the layer and whether there are experts."""
        if spec.when in ("dense", "experts"):
            return (spec.when == "experts") == self.has_experts
        return not spec.when or self.h is None or self.h.has(spec.when, layer)

    def declaration(self, name: str) -> TensorSpec | None:
        """Return the declaration of a tensor's name; None if the architecture is not declared, or has no such
        tensor.
        """
        found = self.architecture.match(name) if self.architecture is not None else None
        return None if found is None else found[0]

    @cached_property
    def undeclared_rows(self) -> list[Row]:
        """The tensors that the declared architecture does not have in this file."""
        return [row for row in self.ternary_model_rows if not self.declares(row)]

    @property
    def model(self) -> Architecture:
        """The architecture of a file that `is_declared`."""
        assert self.architecture is not None
        return self.architecture

    @cached_property
    def in_parts(self) -> bool:
        """Whether some tensors are not known: other parts of the model are not there, or the header does not count them."""
        if self.has_uncounted:
            return True
        if self.whole is not None:
            return False
        count = self.keys.decoded(self.keys.places["split.count"]) if "split.count" in self.keys.places else 1
        return isinstance(count, int) and count > 1

    # --- tensors --------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> list[Row]:
        """Every tensor of all parts, with its declaration if the architecture is declared; none if the file is no model."""
        if not self.holds_model:
            return []
        rows = []
        for tensor in self.file.tensors.rows:
            kind = tensor.type.name if tensor.type is not None else ""
            rows.append(Row(tensor.index, tensor.name, tensor.ne, kind, tensor.number, *self._matched(tensor.name)))
        for other in self.whole.tensors if self.whole is not None else ():
            if other.part != 0:
                rows.append(
                    Row(-other.part, other.name, other.ne, other.type, other.number, *self._matched(other.name))
                )
        return rows

    def _matched(self, name: str) -> tuple[TensorSpec | None, int | None]:
        """Return the declaration of a tensor's name, and the layer in it."""
        found = self.architecture.match(name) if self.architecture is not None else None
        return found or (None, layer_of(name))

    @cached_property
    def is_bitnet(self) -> bool:
        """Whether the file is a ternary model, or says that it is one.

        `llama`, `qwen3` and `gemma3` are declared for their ternary models. Others have more keys, tensors and
        tokenizers than are declared here, and new ones every month, so no finding that depends on such a list is
        reported for them.
        """
        if not self.is_declared:
            return False
        if self.model.is_bitnet or any(row.is_ternary for row in self.rows):
            return True
        says_so = self.keys.value("general.file_type") == keys.FILE_TYPE_I2_S
        return says_so and not any(row.type == "Q1_0" for row in self.rows)

    @cached_property
    def ternary_model_rows(self) -> list[Row]:
        """The tensors of a ternary model, whose inventory is checked; empty for other models."""
        return self.rows if self.is_bitnet else []

    @cached_property
    def present(self) -> dict[str, Row]:
        """The tensors by name, the first of each."""
        present: dict[str, Row] = {}
        for row in self.rows:
            present.setdefault(row.name, row)
        return present

    def misplaced(self, row: Row) -> str:
        """Return the reason why loaders refuse a declared scale where it stands, in words; empty for everything else."""
        if row.spec is None or row.spec.role not in ("scale", "input scale"):
            return ""
        weight = self.present.get(f"{row.name.rpartition('.')[0]}.weight")
        return stands_beside(row.spec, weight.type if weight else None, self.name)

    @cached_property
    def without_tokens(self) -> list[Row]:
        """The embedding and the head, where they have as many rows as vocab_size says and the file lists more or fewer
        tokens: the list is wrong then, not the key."""
        size, tables = self.keys.own("vocab_size"), ("token_embd.weight", "output.weight")
        if self.tokens in (None, size) or self.tokenizer == "no_vocab":
            return []
        rows = [self.present[name] for name in tables if name in self.present]
        return [row for row in rows if len(row.ne) == 2 and row.ne[1] == size]

    @cached_property
    def wanted(self) -> list[tuple[str, TensorSpec]]:
        """The tensors that the file must have or is expected to have, in those layers of which it has any tensor.

        A layer without tensors is missing as a whole, which another rule reports; for one part of a split file the
        result is empty.
        """
        if self.h is None or self.in_parts or not self.is_bitnet:
            return []
        wanted = []
        for spec, layer in self.model.specs(self.h):
            if spec.need != keys.OPTIONAL and (layer is None or layer in self.layers):
                wanted.append((spec.name if layer is None else spec.name.replace("{i}", str(layer)), spec))
        return wanted

    @cached_property
    def layers(self) -> set[int]:
        """The layer numbers that occur in names of tensors."""
        return {row.layer for row in self.rows if row.layer is not None}

    def projections(self) -> Iterator[Row]:
        """Yield the projections, which are the matrices that I2_S was made for."""
        layers = self.h.layers if self.h is not None else MAX_LAYERS
        for row in self.rows:
            if row.spec is not None and row.spec.role == "projection" and (row.layer or 0) < layers:
                yield row

    @cached_property
    def is_ternary(self) -> bool:
        """Whether any projection has a ternary type: for shared architectures, only such models are checked."""
        return any(row.is_ternary for row in self.projections())

    @property
    def experts_contradict(self) -> bool:
        """Whether expert_count and expert_used_count contradict each other."""
        count, used = self.keys.own("expert_count") or 0, self.keys.own("expert_used_count") or 0
        return (count > 0) != (used > 0) or bool(used > count)

    @cached_property
    def has_experts(self) -> bool:
        """Whether the layers have experts: by expert_count, or by the tensors if the keys contradict each other."""
        experts = self.keys.own("expert_count")
        if not isinstance(experts, int) or experts < 1:
            return False
        return not self.experts_contradict or any(_EXPERTS in row.name for row in self.rows)

    @property
    def h(self) -> Hyperparameters | None:
        """The sizes of the model, or None if the metadata do not give them; a rule on metadata then says why."""
        return None if isinstance(self.sizes, FormatError) else self.sizes

    @cached_property
    def sizes(self) -> Hyperparameters | FormatError | None:
        """The sizes of the model, or why the metadata do not give them."""
        if not self.is_declared:
            return None
        metadata: dict[str, Any] = {}
        for name in self.keys.places:
            value = self.keys.value(name)
            if value is not None:
                metadata[name] = value
            elif name.endswith(
                _SHAPING
            ):  # the key exists but is unusable, so the default for a missing key does not apply
                return None
        if not self.has_experts:
            metadata.pop(f"{self.name}.expert_count", None)
        try:
            return hyperparameters(metadata, tokens=self.tokens)
        except FormatError as error:
            return error

    # --- vocabulary -----------------------------------------------------------------------------------------------

    @cached_property
    def tokenizer(self) -> str:
        """The value of `tokenizer.ggml.model`, if there is one."""
        value = self.keys.value(TOKENIZER_MODEL)
        return value if isinstance(value, str) else ""

    @property
    def has_usual_vocabulary(self) -> bool:
        """Whether the vocabulary has a kind that ternary models use: byte-level or SentencePiece."""
        return self.tokenizer in NEWLINES

    @cached_property
    def tokens(self) -> int | None:
        """How many tokens the file lists."""
        return self.keys.count(TOKENS)

    @cached_property
    def sought(self) -> tuple[bytes, ...]:
        """The tokens to search for in the vocabulary."""
        return (*TEXT_BEGINS, *TEXT_ENDS, *NEWLINES.values())

    @cached_property
    def vocabulary(self) -> strings.Strings | None:
        """The result for the array of tokens; None if there is none."""
        array = self.array(TOKENS)
        return None if array is None else strings.examine(*array, self.sought, strings.COMPARED)

    @cached_property
    def merges(self) -> strings.Strings | None:
        """The result for the array of merges; None if there is none."""
        array = self.array(MERGES)
        return None if array is None else strings.examine(*array, (), 0)

    @cached_property
    def merge_results(self) -> strings.MergeResults | None:
        """What the merges make, in the order of the list; None if there are none."""
        array = self.array(MERGES)
        return None if array is None else strings.merge_results(*array)

    @property
    def sound_arrays(self) -> set[int]:
        """Key-values whose strings were all examined and are valid UTF-8."""
        arrays = ((TOKENS, self.vocabulary), (MERGES, self.merges))
        return {self.keys.places[name] for name, seen in arrays if seen is not None and seen.is_utf8}

    def array(self, name: str) -> tuple[Source, int, int, int, bool] | None:
        """Return an array of strings as `gguf.strings` takes it: source, start, stop, count, whether it is big-endian; None
        if it is missing, has a wrong type, or the header has a fault.
        """
        if not self.keys.has(name) or self.file.fault is not None:
            return None
        entry = self.keys.entry(name)
        return self.file.source, entry.value_start, entry.stop, entry.count, self.file.byte_order == "big"

    def vocabulary_keys(self, need: str) -> Iterator[Key]:
        """Yield the declared keys of a vocabulary with a level of need, for the kind of tokenizer that the file names."""
        for key in self.keys.declared.values():
            concerned = key.when in ("", self.tokenizer) and (
                self.tokenizer != "no_vocab" or key.name == TOKENIZER_MODEL
            )
            if key.name.startswith("tokenizer.") and key.need == need and concerned:
                yield key

    def item_span(self, name: str, index: int) -> Span:
        """Return the bytes of one string of an array, without its length."""
        i, entry = self.keys.places[name], self.keys.entry(name)
        big = self.file.byte_order == "big"
        span = strings.span_of(self.file.source, entry.value_start, entry.stop, big, index)
        return Span(*span, f"key_values[{i}].value.items[{index}]")

    def item(self, span: Span) -> bytes:
        """Return the text of such a string, cut to the length that messages show."""
        return self.file.source.read(span.start, min(span.stop - span.start, 512))


_LAYER: Final = re.compile(r"blk\.(0|[1-9]\d{0,8})\.")


def layer_of(name: str) -> int | None:
    """Return the number of the layer in a tensor's name.

    >>> layer_of("blk.10.attn_q.weight"), layer_of("blk.01.attn_q.weight")
    (10, None)
    """
    found = _LAYER.match(name)
    return int(found[1]) if found else None


def stripped(ne: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without trailing dimensions of 1, which writers may omit."""
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


@analysis
def architecture_view(subject: LintContext) -> ArchitectureView:
    """Return the file of a subject with the declarations of its architecture."""
    return ArchitectureView(subject)


# --- declared keys ---------------------------------------------------------------------------------------------------

#: Longest text value that rules examine, and most elements of an array of numbers.
TEXT_BYTES: Final = 1 << 16
NUMBERS: Final = 4 * MAX_LAYERS


class DeclaredKeys:
    """The keys of one file with the declarations of an architecture.

    :param prefix: the value of general.architecture, declared or not; empty if the file has none
    :param architecture: its declaration, if there is one
    """

    def __init__(self, file: File, prefix: str, architecture: Architecture | None) -> None:
        self.file = file
        self.prefix = prefix
        self.architecture = architecture

    @cached_property
    def declared(self) -> dict[str, Key]:
        """The declared keys by name; for an architecture that is not declared, the keys that all share."""
        if self.architecture is not None:
            return dict(self.architecture.keys)
        model = (key.of(self.prefix) for key in keys.MODEL) if self.prefix else ()
        return {key.name: key for key in (*keys.GENERAL, *model, *keys.TOKENIZER)}

    @cached_property
    def places(self) -> dict[str, int]:
        """The rows of the declared keys, the first of each; and of the keys about split files."""
        names = (*self.declared, "split.no", "split.count")
        wanted = {name.encode("utf-8", "surrogateescape"): name for name in names}
        places: dict[str, int] = {}
        index = self.file.index
        for i in index.keys_named(wanted):
            places.setdefault(wanted[index.key(i).name], i)
        return places

    def has(self, name: str) -> bool:
        """Whether a declared key exists with an allowed type."""
        i = self.places.get(name)
        key = self.declared.get(name)
        return i is not None and (key is None or self.file.index.key(i).label in key.types)

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {}

    def value(self, name: str) -> Any:
        """Return the value of a declared key; None if it is missing, has a wrong type, or is too long to be examined.

        Arrays of numbers are tuples; arrays of strings give None.
        """
        if name not in self._values:
            self._values[name] = self.decoded(self.places[name]) if self.has(name) else None
        return self._values[name]

    def own(self, suffix: str) -> Any:
        """Return the value of a key of the architecture, by its name without the prefix."""
        return self.value(f"{self.prefix}.{suffix}")

    def of_prefix(self, suffix: str) -> tuple[Any, Span] | None:
        """Return the value of a key of the file's architecture, declared or not, and its place; None if it is
        missing.
        """
        if self.file.fault is not None:
            return None
        for i in self.file.index.keys_named({f"{self.prefix}.{suffix}".encode("utf-8", "surrogateescape")}):
            return self.decoded(i), self.file.index.key(i).value_span
        return None

    def decoded(self, i: int) -> Any:
        """Return the value of a key by its row, as `value` gives it, whether or not it is declared."""
        entry = self.file.index.key(i)
        element, count, start = entry.element, entry.count, entry.value_start
        if entry.type == ValueType.STRING and count > TEXT_BYTES:
            return None
        if entry.type != ValueType.ARRAY:
            return self.file.metadata.decode(entry)
        if element not in VALUE_FORMATS or count > NUMBERS:
            return None
        data = self.file.source.read(start, entry.stop - start)
        return tuple(numbers(VALUE_FORMATS[element], data, self.file.byte_order))

    def entry(self, name: str) -> KeyValue:
        """Return the key-value of a declared key that exists."""
        return self.file.index.key(self.places[name])

    def value_span(self, name: str) -> Span:
        """Return the bytes of a value."""
        return self.entry(name).value_span

    def count(self, name: str) -> int | None:
        """Return the number of elements of an array; None if it is missing or has a wrong type."""
        return self.entry(name).count if self.has(name) else None
