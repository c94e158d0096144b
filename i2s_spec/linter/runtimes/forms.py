"""The form of a model file: what decides how a program computes it, except for the weights themselves.

Two files have the same form if they have the same architecture, the same types of matrices, table and head, rows of the
same classes of sizes, and the same features that change the graph. A run of a program on one of them shows what it does
with the other.

    >>> from i2s_spec.gguf.reader import open as open_file
    >>> from i2s_spec.convert.new import new
    >>> import io
    >>> buffer = io.BytesIO()
    >>> _ = new(buffer, "llama", type="TQ2_0", embd=512, ff=1024, heads=8, layers=1)
    >>> sorted(form_of(open_file(buffer)).attributes)
    ['a head of F16', 'a table of F16', 'matrices of TQ2_0 with rows from 512, in 256s']
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.gguf.tensor import FLOATS
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: How attributes begin that are types and sizes; all others are features.
_PLAIN: Final = ("matrices of ", "a table of ", "a head of ")

_TABLE, _HEAD = b"token_embd.weight", b"output.weight"
_LAYER: Final = re.compile(rb"(?:enc|dec)?\.?blk\.\d+\.")

#: Features by the endings and parts of tensor names.
_NAMED: Final = (
    ("rotary factors", re.compile(rb"rope_(?:freqs|factors_\w+)\.weight$")),
    ("scales beside weights", re.compile(rb"(?<!input_)(?<!\.input)[._]scale$")),
    ("scales of activations", re.compile(rb"\.input_scale$")),
    ("experts", re.compile(rb"_exps\.")),
    ("layers for later tokens", re.compile(rb"\.nextn\.")),
    ("norms before projections", re.compile(rb"_norm_in\.weight$")),
    ("norms inside attention and feed-forward", re.compile(rb"_sub_norm\.weight$")),
    ("biases of projections", re.compile(rb"blk\.\d+\.(?:attn|ffn)_(?!norm)\w+\.bias$")),
)

#: Features by keys of the architecture whose value is not 0.
_KEYED: Final = (
    ("a window of attention", "attention.sliding_window"),
    ("experts", "expert_count"),
    ("layers for later tokens", "nextn_predict_layers"),
    ("pooling", "pooling_type"),
)


class FileForm(NamedTuple):
    """The form of a file: its architecture, and its attributes, in words."""

    architecture: str
    attributes: frozenset[str]

    @property
    def features(self) -> frozenset[str]:
        """The attributes that change the graph: all but types and sizes."""
        return frozenset(each for each in self.attributes if not each.startswith(_PLAIN))

    @property
    def matrices(self) -> frozenset[str]:
        """The types of its matrices."""
        return frozenset(each.split()[2] for each in self.attributes if each.startswith(_PLAIN[0]))

    @property
    def states_activation(self) -> bool:
        """Whether the activation of the feed-forward network is known: if models with several have this architecture, only
        where the file states it."""
        declared = ARCHITECTURES.get(self.architecture)
        several = declared is not None and declared.takes_activation
        return not several or any(each.startswith("activation ") for each in self.attributes)

    def with_matrices(self, former: str, other: str) -> FileForm:
        """Return the form of a copy with the matrices of one type in another."""
        begin = f"{_PLAIN[0]}{former} "
        rest = (each.removeprefix(begin) for each in self.attributes if each.startswith(begin))
        others = (each for each in self.attributes if not each.startswith(begin))
        return FileForm(self.architecture, frozenset((*others, *(f"{_PLAIN[0]}{other} {each}" for each in rest))))


def form_of(file: File) -> FileForm:
    """Return the form of a file whose header can be read."""
    index, tensors = file.index, file.tensors
    name = file.metadata.short("general.architecture")
    architecture = name if isinstance(name, str) else ""
    found: set[str] = set()
    seen: set[bytes] = set()
    for i in range(min(index.tensors, limits.MANY_TENSORS)):
        info = index.tensor(i)
        kind = tensors.common_type(info.type)
        type_name = kind.name if kind is not None else str(info.type)
        seen.add(info.name)
        found.update(word for word, form in _NAMED if form.search(info.name))
        if info.name == _TABLE:
            found.add(f"a table of {type_name}")
        elif info.name == _HEAD:
            found.add(f"a head of {type_name}")
        elif len(info.ne) > 1 and info.ne[0] > 1 and info.ne[1] > 1 and _LAYER.match(info.name):
            found.add(f"{_PLAIN[0]}{type_name} with rows {_class_of(type_name, info.ne[0])}")
    if _TABLE in seen and _HEAD not in seen:
        found.add("a tied head")
    return FileForm(architecture, frozenset(found | _of_keys(file, architecture)))


def _class_of(kind: str, columns: int) -> str:
    """Return the class of a size of rows: kernels of blocks differ by its magnitude, and by the multiple that it is
    of.
    """
    if kind in FLOATS:
        return "of any size"
    magnitude = "from 512" if columns >= 512 else "from 128 to 511" if columns >= 128 else "below 128"
    multiple = next((each for each in (256, 128, 64, 32) if columns % each == 0), None)
    return f"{magnitude}, in {multiple}s" if multiple is not None else f"{magnitude}, no multiples of 32"


def _of_keys(file: File, architecture: str) -> set[str]:
    found = {
        word for word, key in _KEYED if (value := file.metadata.short(f"{architecture}.{key}")) and value is not True
    }
    activation = file.metadata.short(f"{architecture}.hidden_activation")
    if isinstance(activation, str):
        found.add(f"activation {quote(activation, 16, bare=True)}")
    scaling, factor = (file.metadata.short(f"{architecture}.rope.scaling.{key}") for key in ("type", "factor"))
    if isinstance(scaling, str) and scaling != "none" and factor not in (None, 0, 1):
        found.add(f"rotary scaling {quote(scaling, 16, bare=True)}")
    width, heads, rotated, length = (
        file.metadata.short(f"{architecture}.{key}")
        for key in ("embedding_length", "attention.head_count", "rope.dimension_count", "attention.key_length")
    )
    if isinstance(rotated, int):
        head = length if isinstance(length, int) else None
        if head is None and isinstance(width, int) and isinstance(heads, int) and heads:
            head = width // heads
        if head is not None and rotated < head:
            found.add("rotary positions of a part of each head")
    if file.metadata.short(f"{architecture}.attention.causal") is False:
        found.add("attention to all tokens")
    if "prism.hadamard.version" in file.metadata or "prism.hadamard.block_size" in file.metadata:
        found.add("rotated weights")
    return found
