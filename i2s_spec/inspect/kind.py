"""The kind of a file: a model, or one of the files that are used beside one (`schema.kinds`).

Only the header is read. A file is of the first kind that it fits; a part of a split model is a model, with its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.gguf.split_set import part_keys
from i2s_spec.schema import kinds, limits
from i2s_spec.schema.kinds import KINDS, FileKind

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: Keys whose values are read.
_READ: Final = (b"general.type", b"general.architecture", b"clip.projector_type", b"clip.vision.projector_type",
                b"clip.audio.projector_type")  # fmt: skip
_TOKENS: Final = b"tokenizer.ggml.tokens"

#: How keys of a kind begin.
_BEGINNINGS: Final = {kinds.ADAPTER: b"adapter.", kinds.PROJECTOR: b"clip.", kinds.IMATRIX: b"imatrix."}

#: Architectures that are those of a kind.
_ARCHITECTURES: Final = {"clip": kinds.PROJECTOR, "controlvector": kinds.CONTROL_VECTOR}

#: A tensor of every text model.
_EMBEDDING: Final = b"token_embd.weight"

#: How names of tensors of models begin.
_OF_MODELS: Final = (b"token_embd.", b"output_norm.", b"output.", b"blk.", b"layers.", b"model.", b"transformer.")


class RecognisedKind(NamedTuple):
    """What a file is: its kind, the architecture or type where that says more, and which part of a split model it is."""

    kind: FileKind
    of: str = ""
    part: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def title(self) -> str:
        """What it is in a few words, with text from the file quoted: `LoRA adapter for llama`."""
        words = self.kind.title
        if self.name == kinds.OTHER:
            words = f"{words} (general.type {quote(self.of, 64)})"
        elif self.of and self.name in (kinds.ADAPTER, kinds.VOCABULARY):
            words += f" for {quote(self.of, 64, bare=True)}"
        elif self.of and self.name == kinds.PROJECTOR:
            words += f" of type {quote(self.of, 64, bare=True)}"
        if self.part is not None:
            number, count = self.part
            words = f"part {number:,} of {count:,} of a split {words}"
        return words

    @property
    def is_model(self) -> bool:
        """Whether it is a model or a part of one."""
        return self.name == kinds.MODEL

    @property
    def is_beside(self) -> bool:
        """Whether it is used in another way than a model: what is known of models and their programs says nothing of it."""
        return self.name not in (kinds.MODEL, kinds.VOCABULARY, kinds.NO_MODEL)

    @property
    def is_special(self) -> bool:
        """Whether it is anything else than a whole model, so that its kind is named first."""
        return not self.is_model or self.part is not None

    @property
    def use(self) -> str:
        """What uses it, as a sentence."""
        if self.part is None:
            return self.kind.used
        first = "it has the keys of the model" if self.part[0] == 1 else "its keys are in part 1"
        return f"{first}; programs load all parts by the name of the first"

    @property
    def not_tried(self) -> str:
        """Why runs of models say nothing about the file, and what uses it."""
        return f"not a model: {self.title}; {self.use}"

    def unjudged(self, compared: bool = False) -> str:
        """Return the parts that no rule examines, as the end of "not judged: "; empty for models.

        :param compared: whether the file is compared with a reference
        """
        return " and ".join(filter(None, (self.kind.unjudged, "" if compared else self.kind.fit)))

    def as_dict(self) -> dict[str, Any]:
        """Return the kind as plain data."""
        number, count = self.part or (None, None)
        return {"name": self.name, "title": self.title, "used": self.use, "part": number, "parts": count}


def kind_of(file: File) -> RecognisedKind | None:
    """Return the kind of a file; None for one whose header cannot be read to its end, or with more records than are
    examined.
    """
    index = file.index
    if file.fault is not None or max(index.tensors, index.keys) > limits.MANY_TENSORS:
        return None
    values = _values(file)
    declared, architecture = values.get("general.type", ""), values.get("general.architecture", "")
    part = _part(file)
    if (
        declared in ("", "model")
        and architecture not in _ARCHITECTURES
        and any(index.tensor(i).name == _EMBEDDING for i in range(min(index.tensors, 4)))
    ):  # decides most models without a list of all names
        return RecognisedKind(KINDS[kinds.MODEL], "", part)
    names = [index.key(i).name for i in range(index.keys)]
    tensors = [index.tensor(i).name for i in range(index.tensors)]
    name = (
        _named(declared, architecture) or _seen(names, tensors) or _left(declared, architecture, names, tensors, part)
    )
    of = ""
    if name in (kinds.ADAPTER, kinds.VOCABULARY):
        of = architecture
    elif name == kinds.PROJECTOR:
        of = next((value for key, value in values.items() if key.endswith("projector_type") and value), "")
    elif name == kinds.OTHER:
        of = declared
    return RecognisedKind(KINDS[name], of, part if name == kinds.MODEL else None)


def _values(file: File) -> dict[str, Any]:
    """Return the values that are examined, of short texts; the first of each key."""
    found: dict[str, Any] = {}
    for i in file.index.keys_named(frozenset(_READ)):
        entry = file.index.key(i)
        name = entry.name.decode()
        if name in found:
            continue
        if entry.label == "str" and entry.count <= 64:
            found[name] = str(file.metadata.decode(entry))
    return found


def _part(file: File) -> tuple[int, int] | None:
    """Return the number of the part, from 1, and how many there are."""
    keys = part_keys(file)
    number = keys.number or 0
    return (number + 1, keys.parts) if keys.is_part and keys.parts is not None and number < keys.parts else None


def _named(declared: str, architecture: str) -> str | None:
    """Return the kind that general.type or general.architecture names."""
    for kind in KINDS.values():
        if declared in kind.types and kind.name != kinds.MODEL:
            return kind.name
    return _ARCHITECTURES.get(architecture)


def _seen(names: list[bytes], tensors: list[bytes]) -> str | None:
    """Return the kind that other keys and the names of tensors show."""
    if _EMBEDDING in tensors:
        return None
    for kind, beginning in _BEGINNINGS.items():
        if any(name.startswith(beginning) for name in names):
            return kind
    if not tensors:
        return None
    ends = {name.rpartition(b".")[2] for name in tensors}
    if ends >= {b"lora_a", b"lora_b"}:
        return kinds.ADAPTER
    if b"in_sum2" in ends:
        return kinds.IMATRIX
    if all(name.startswith(b"direction.") for name in tensors):
        return kinds.CONTROL_VECTOR
    return None


def _left(
    declared: str, architecture: str, names: list[bytes], tensors: list[bytes], part: tuple[int, int] | None
) -> str:
    """Return the kind of a file that neither its type nor its keys and tensors show to be one that is used beside a
    model.
    """
    if declared not in ("", "model"):
        return kinds.OTHER
    if not tensors and part is None and _TOKENS in names:
        return kinds.VOCABULARY
    if declared or architecture or part is not None or _TOKENS in names:
        return kinds.MODEL
    return kinds.MODEL if any(name.startswith(_OF_MODELS) for name in tensors) else kinds.NO_MODEL
