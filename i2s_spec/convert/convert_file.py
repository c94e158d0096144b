"""Conversion of whole GGUF files: ternary tensors to another type or dialect, with a proof for each of them.

All other tensors and keys are copied byte for byte, except those that describe the conversion: `general.file_type`, and
`general.quantization_version` if it is missing but required. The file appears complete and proved, or not at all.

    >>> import io
    >>> from i2s_spec.convert.new import new
    >>> from i2s_spec.gguf.reader import open
    >>> model, copy = io.BytesIO(), io.BytesIO()
    >>> _ = new(model, layers=1)
    >>> result = convert_file(open(model), copy, to="interleave-64")
    >>> len(result.proofs), str(result.proofs[0])
    (7, 'blk.0.ffn_down.weight: I2_S interleave-128 -> I2_S interleave-64, trits equal, scale 0.088172555 kept')

`advice` says which programs can use the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from i2s_spec.convert.rewrite import Replacement, changed_keys, check_extents, renamed_keys, rewrite, stated_activation
from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.atomic_file import refuse_inputs
from i2s_spec.gguf.reader import takes_file
from i2s_spec.gguf.tensor import require_usual
from i2s_spec.gguf.writer_forms import usual_form
from i2s_spec.schema.architectures import ARCHITECTURES, declared_architecture
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse
from i2s_spec.schema.runtimes import LOOKED_UP
from i2s_spec.schema.types import BY_NAME

if TYPE_CHECKING:
    from i2s_spec.codec.encoding import Rounding, TernaryEncoding
    from i2s_spec.convert.recodings import AnyRecoding, SmallRecodings
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.source import Origin
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.gguf.writer_forms import WriterForm
    from i2s_spec.schema.faults import ByteOrder

FLOATS: Final = ("F32", "F16", "BF16")
#: The target types, and the source types, of conversions.
TYPES: Final = ("I2_S", *GROUP_LAYOUTS, *FLOATS)


class Proof(NamedTuple):
    """The proof for a written tensor: its trits are equal, and its scale is kept or rounded as stated."""

    name: str
    shape: tuple[int, ...]
    source: str
    target: str
    rounding: Rounding
    #: How many unused codes were kept.
    unused: int = 0

    @property
    def types(self) -> tuple[str, str]:
        """The names of both types, without the dialect of I2_S."""
        return self.source.split()[0], self.target.split()[0]

    @property
    def compared(self) -> str:
        """What was found equal: trits, or where a type has a weight of +2 as well, codes, or weights that became floats."""
        source, target = (name in GROUP_LAYOUTS and GROUP_LAYOUTS[name].fourth == "weight" for name in self.types)
        if not source:
            return "trits"
        return "codes" if target else "weights" if self.types[1] in FLOATS else "trits"

    def __str__(self) -> str:
        retained = f", {counted(self.unused, 'unused code')} kept" if self.unused else ""
        name = quote(self.name, bare=True)
        return f"{name}: {self.source} -> {self.target}, {self.compared} equal, {self.rounding}{retained}"


class Conversion(NamedTuple):
    """The result of a conversion."""

    #: Bytes of the new file.
    size: int
    proofs: tuple[Proof, ...]
    #: How many tensors were copied.
    copied: int
    #: `general.file_type` before and after; None where there is none.
    file_type: tuple[int | None, int | None]
    #: Notes for users of the file.
    advice: tuple[str, ...]


@takes_file
def convert_file(
    file: Origin,
    target: Target,
    *,
    to: str | None = None,
    dialect: str | Dialect | None = None,
    source_dialect: str | Dialect | None = None,
    tensors: Collection[str] | None = None,
    fallback: str | None = None,
    unused_code: Literal["reject", "zero"] = "reject",
    arch: str | None = None,
    hidden_activation: str | None = None,
    byte_order: ByteOrder | None = None,
    force: bool = False,
    progress: Progress | None = None,
    threads: int = 1,
) -> Conversion:
    """Copy a GGUF file with its ternary tensors in another type or dialect; `i2s_spec.convert` is the same.

        result = i2s.convert("model.gguf", "copy.gguf", to="Q2_0")
        print(*result.proofs, sep="\n")

    :param file: a `File`, or an argument of `open`
    :param target: a path, or a binary stream
    :param to: one of `TYPES`, or the name of a dialect of I2_S; without it, tensors stay unchanged
    :param dialect: the dialect of I2_S to write
    :param source_dialect: the dialect of I2_S in the file, which does not state it; by default canonical, or that of the
        form of a single writer (`gguf.writer_forms`), which is read as the model in the usual form
    :param tensors: names of the tensors to convert, or patterns (`blk.*.ffn_*`). By default all tensors of ternary
    types, and floats that the architecture declares as projections; patterns choose among these
    :param fallback: one of `FLOATS`, for tensors that `to` cannot hold (rows of 8,640 in TQ2_0)
    :param unused_code: whether the unused code is refused or becomes 0; between dialects it is kept
    :param arch: a new name of the architecture; keys that begin with the old name get the new one
    :param hidden_activation: `relu2`, `silu` or `gelu`, stored as `<architecture>.hidden_activation`; without it, what
        the former architecture means, if `arch` means another and the file states none (clause 9.6)
    :param byte_order: the byte order of the copy; by default the source's
    :param force: replace an existing file, but never the one that is read
    :param progress: called now and then with (bytes written, bytes of the copy)
    :param threads: how many threads decode and encode
    :raises ValueError: for unknown names, tensors that are not ternary, tensors or scales that the type cannot hold;
    nothing is written then
    :raises FormatError, OSError: as `rewrite` does
    """
    if file.fault is not None:
        raise file.fault
    refuse_inputs(target, file.source)
    file, form = usual_form(file)
    kind, wanted = wanted_form(to, dialect)
    if kind is None and form is not None:
        kind = "I2_S"
    if fallback is not None and fallback not in FLOATS:
        raise ValueError(f"{quote(fallback)} is not a fallback type; there are: {', '.join(FLOATS)}")
    order: ByteOrder = byte_order or file.byte_order
    former = file.metadata.get("general.architecture")
    former = former if isinstance(former, str) else None
    check_extents(
        file, list(file.tensors.rows)
    )  # checked before a plan is made for each tensor, of which there may be very many
    chosen = [] if kind is None else _chosen(file, tensors, former)
    if kind is not None and tensors is None:
        for tensor in file.tensors.rows:  # what is not chosen is copied: nobody asked for that
            if len(tensor.ne) > 1:
                require_usual(tensor)

    from i2s_spec.convert.recodings import named_bytes

    source = parse(source_dialect or (CANONICAL if form is None else form.dialect))
    plan = _planned(file, chosen, kind, wanted, source, fallback, unused_code, order, threads)
    replacements = {
        name: Replacement(plan.small.types(each)[1], plan.small.data(each))
        if isinstance(each, int)
        else Replacement(each.encoding.type, partial(named_bytes, name, each))
        for name, each in plan.recodings.items()
    }

    types = Counter(
        replacements[t.name].type if t.name in replacements else t.type.name if t.type else str(t.number)
        for t in file.tensors.rows
        if len(t.ne) > 1
    )
    stored = stated_activation(file, former, arch) if hidden_activation is None else None
    activation = hidden_activation or stored
    values, file_type = changed_keys(file, former, arch, activation, types, bool(plan.recodings))
    size = rewrite(
        file,
        target,
        replace=replacements,
        set=values,
        rename=renamed_keys(file, former, arch),
        byte_order=byte_order,
        force=force,
        progress=progress,
    )
    declared = declared_architecture(arch or former, file.metadata, file.tensors)
    proofs = tuple(plan.proofs(file))
    notes = (() if form is None else (read_as(form, source),)) + _activation_note(former, arch, stored)
    return Conversion(
        size,
        proofs,
        len(file.tensors) - len(proofs),
        file_type,
        notes
        + advice(
            set(types),
            declared.name if declared is not None else arch or former,
            activation or _text(file, f"{former}.hidden_activation"),
            _layout(plan, source, types),
            _text(file, "tokenizer.ggml.model") != "gpt2" or "tokenizer.ggml.pre" in file.metadata,
            {tensor.ne[0] for tensor in file.tensors.values() if is_ternary(tensor, former)},
        ),
    )


def _activation_note(former: str | None, arch: str | None, stored: str | None) -> tuple[str, ...]:
    if stored is None:
        return ()
    return (f"{arch}.hidden_activation is set to {stored}, which architecture {former} means and {arch} does not.",)


def read_as(form: WriterForm, source: Dialect) -> str:
    """How a file in the form of a single writer was read, in a sentence."""
    text = f"The file has the form of {form.program}: {form.words}. It was read so, with codes as {source}"
    if form.tail:
        return f"{text}; --from names another layout, if the marks of the form deceive."
    return (
        f"{text}, and each scale is 1 / NAME_scale, by which that program divides. The scales of BitNet b1.58 2B-4T's own "
        "checkpoint multiply: compare with it, by i2s lint --reference."
    )


# The request.


def wanted_form(to: str | None, dialect: str | Dialect | None = None) -> tuple[str | None, Dialect]:
    """Return the type for one of `TYPES` or the name of a dialect, and the dialect if the type is I2_S.

    :raises ValueError: for a name that is neither, and for two different dialects
    """
    if to is None:
        return (None, CANONICAL) if dialect is None else ("I2_S", parse(dialect))
    if to.upper() in TYPES:
        if dialect is not None and to.upper() != "I2_S":
            raise ValueError(f"{to.upper()} has no dialects; I2_S has")
        return to.upper(), CANONICAL if dialect is None else parse(dialect)
    try:
        named = parse(to)
    except ValueError as error:
        raise ValueError(f"{quote(to)} is not one of {', '.join(TYPES)}, and not a dialect: {error}") from None
    if dialect is not None and parse(dialect) != named:
        raise ValueError(f"two dialects are given: {named} and {parse(dialect)}")
    return "I2_S", named


def _chosen(file: File, patterns: Collection[str] | None, architecture: str | None) -> list[Tensor]:
    if patterns is None:
        return [tensor for tensor in file.tensors.values() if is_ternary(tensor, architecture)]
    if isinstance(patterns, str):
        raise TypeError("tensors must be a list of names, not a single string")
    chosen: dict[str, Tensor] = {}
    for pattern in patterns:
        found = [
            tensor
            for tensor in file.tensors.values()
            if tensor.name == pattern or (is_ternary(tensor, architecture) and fnmatchcase(tensor.name, pattern))
        ]
        if not found:
            raise ValueError(f"no tensor that could be converted is called {quote(pattern)}")
        chosen.update((tensor.name, tensor) for tensor in found)
    return [tensor for name, tensor in file.tensors.items() if name in chosen]


def is_ternary(tensor: Tensor, architecture: str | None) -> bool:
    """Whether a tensor can be converted."""
    name = tensor.type.name if tensor.type is not None else ""
    if name not in FLOATS:
        return name in TYPES
    declared = declared_architecture(architecture)
    if declared is None:
        return len(tensor.ne) == 2 and tensor.name.startswith("blk.") and tensor.name.endswith(".weight")
    match = declared.match(tensor.name)
    return match is not None and match[0].role == "projection"


class _Plan(NamedTuple):
    """The converted tensors, by name: each in another form, or its place among those that are recoded together."""

    recodings: dict[str, AnyRecoding | int]
    small: SmallRecodings

    def proofs(self, file: File) -> Iterator[Proof]:
        """Yield the proofs, after all bytes are made."""
        small = self.small
        for name, each in self.recodings.items():
            if isinstance(each, int):
                source, target = small.types(each)
                source = f"I2_S {small.source}" if source == "I2_S" else source
                target = f"I2_S {small.target}" if target == "I2_S" else target
                yield Proof(name, file.tensors[name].shape, source, target, small.rounding(each), small.unused[each])
            else:
                yield _proof(name, each)


def _planned(
    file: File,
    chosen: list[Tensor],
    kind: str | None,
    wanted: Dialect,
    source: Dialect,
    fallback: str | None,
    unused_code: Literal["reject", "zero"],
    order: ByteOrder,
    threads: int,
) -> _Plan:
    """Return the conversion of each tensor that does not have the requested form already."""
    from i2s_spec.convert.recodings import TOGETHER, SmallRecodings

    each: AnyRecoding | int | None
    plan = _Plan({}, SmallRecodings(file, source, kind or "I2_S", wanted, fallback, unused_code, order))
    for first in range(0, len(chosen), TOGETHER):
        part = chosen[first : first + TOGETHER]
        for tensor, place in zip(part, plan.small.add(part), strict=True):
            assert kind is not None
            each = place
            if each is None:
                each = _recoding(file, tensor, kind, wanted, source, fallback, unused_code, order, threads)
            if each is not None:
                plan.recodings[tensor.name] = each
    return plan


def _recoding(
    file: File,
    tensor: Tensor,
    kind: str,
    dialect: Dialect,
    source_dialect: Dialect,
    fallback: str | None,
    unused_code: Literal["reject", "zero"],
    order: ByteOrder,
    threads: int,
) -> AnyRecoding | None:
    """One tensor in the requested type; None if it has that type already."""
    from i2s_spec.codec.encoding import TernaryEncoding
    from i2s_spec.convert.recodings import recoding_of

    if tensor.type is BY_NAME[kind] and (kind != "I2_S" or (dialect == source_dialect and unused_code == "reject")):
        return None
    source = tensor.ternary(source_dialect, unused_code)
    failed: ValueError | None = None
    for name in (kind, fallback):
        if name is None:
            continue
        try:
            return recoding_of(source, TernaryEncoding(name, tensor.shape, dialect, order), threads)
        except FormatError:
            raise
        except ValueError as error:
            failed = failed or error
    hint = ""
    if kind in GROUP_LAYOUTS and tensor.shape[-1] % GROUP_LAYOUTS[kind].block and fallback is None:
        hint = "; --fallback F16 (fallback=) stores such tensors as F16"
        if tensor.shape[-1] % GROUP_LAYOUTS["Q2_0"].block == 0:
            hint += ", and Q2_0, with blocks of 64, can hold them"
    raise ValueError(f"tensor {quote(tensor.name)}: {failed}{hint}") from failed


def _proof(name: str, recoding: AnyRecoding) -> Proof:
    source, form = recoding.source.encoding, recoding.encoding
    return Proof(name, form.shape, form_label(source), form_label(form), recoding.rounding, recoding.unused)


def form_label(form: TernaryEncoding) -> str:
    """Return a type, and the dialect of I2_S."""
    return f"I2_S {form.dialect}" if form.type == "I2_S" else form.type


def _text(file: File, key: str) -> str | None:
    value = file.metadata.get(key)
    return value if isinstance(value, str) else None


def _layout(plan: _Plan, source: Dialect, types: Counter[str]) -> str | None:
    """Return the layout of the I2_S tensors in the new file."""
    if "I2_S" not in types:
        return None
    small = plan.small
    kinds = {small.types(each)[1] if isinstance(each, int) else each.encoding.type for each in plan.recodings.values()}
    written = {small.target.layout.name} if "I2_S" in kinds else set()
    return written.pop() if written else source.layout.name


# --- advice ----------------------------------------------------------------------------------------------------------
# Which programs can use a converted file, and what they compute with it: only known facts about released programs, and
# only if they concern the file.

#: Architectures with ReLU squared in the feed-forward network: those of BitNet b1.58 2B-4T.
_RELU2: Final = tuple(each.name for each in ARCHITECTURES.values() if each.activation == "relu2")

_RELU2_READ = (
    "llama.cpp computes architecture bitnet with SiLU, whatever bitnet.hidden_activation says: the requests that would "
    "read the key (ggml-org/llama.cpp#26751, #25885) were closed unmerged. The output is wrong without an error, unless the "
    "program is patched: compare the perplexity (about 17 on wikitext-2 with ReLU squared; about 97 with SiLU)."
)

#: Architectures of BitNet's embedding models, with tensors that upstream does not know.
_NORM_IN: Final = tuple(each.name for each in ARCHITECTURES.values() if each.has_input_norms)

#: Rows must be multiples of 64 in Q2_0, of 256 in TQ1_0 and TQ2_0, of 128 in I2_S and in PrismML's types.
_GROUP: Final = 64
_OTHERS: Final = (("TQ2_0", 256), ("I2_S", 128))


def _takes_activation(architecture: str | None) -> bool:
    declared = ARCHITECTURES.get(architecture or "")
    return declared is not None and declared.takes_activation


def _way_out(architecture: str | None, activation: str | None, rows: Collection[int]) -> str:
    """Whether and how conversion to Q2_0 makes a file that llama.cpp computes correctly."""
    if architecture in _RELU2 or (_takes_activation(architecture) and activation == "relu2"):
        return (
            "--to Q2_0 does not help: llama.cpp reads it since July 2026, but computes no BitNet architecture "
            "with ReLU squared, which this model needs."
        )
    if architecture in _NORM_IN:
        return f"--to Q2_0 makes tensors that llama.cpp reads since July 2026, if not {architecture} with *_norm_in tensors."
    declared = ARCHITECTURES.get(architecture or "")
    if declared is not None and declared.prefix not in LOOKED_UP:
        return f"--to Q2_0 makes tensors that llama.cpp reads since July 2026; nobody tried whether it knows {architecture}."
    if any(row % _GROUP for row in rows):
        uneven = min(row for row in rows if row % _GROUP)
        return (
            f"--to Q2_0 --fallback F16 makes a file that llama.cpp reads since July 2026; rows of {uneven:,}, "
            "which is not a multiple of 64, become F16."
        )
    text = (
        "--to Q2_0 is recommended: it makes a file that llama.cpp reads since July 2026, and only rounds scales "
        "to float16"
    )
    for row in sorted(rows):
        missing = [name for name, block in _OTHERS if row % block]
        if missing:
            return f"{text}, and rows of {row:,}, which are not whole blocks of {' and '.join(missing)}, fit."
    return f"{text}."


def advice(
    types: set[str],
    architecture: str | None,
    activation: str | None,
    layout: str | None,
    pre: bool = True,
    rows: Collection[int] = (),
) -> tuple[str, ...]:
    """What to know about a file before it is loaded, most important first.

    :param types: the types of the file's tensors
    :param architecture: its declared name, or the value of `general.architecture`
    :param activation: the activation of the feed-forward network that the file states
    :param layout: the layout of the I2_S tensors, if there are any
    :param pre: whether the file says how text is split before tokenization, or need not
    :param rows: lengths of the rows of its ternary matrices
    """
    upstream = "I2_S" not in types
    way_out = _way_out(architecture, activation, rows)
    notes = [
        *(() if upstream else _of_i2s(layout, way_out)),
        *_of_architecture(architecture, activation, upstream),
        *_of_group_types(types, way_out),
        *_of_blocks_of_256(types, rows, upstream),
    ]
    if upstream and not pre:
        notes.append(
            "tokenizer.ggml.pre is missing: upstream llama.cpp warns, and splits text by its default rule; for the "
            "tokenizer of 2B-4T it should say llama-bpe."
        )
    return tuple(notes)


def _of_i2s(layout: str | None, way_out: str) -> Iterator[str]:
    yield (
        "Only BitNet's llama.cpp forks and programs made for I2_S read type 36; upstream llama.cpp refuses the file, "
        "and ik_llama.cpp has to requantize it first (llama-quantize --allow-requantize --token-embedding-type f16, to "
        f"IQ2_BN). {way_out}"
    )
    if layout not in (None, "interleave-128"):
        yield (
            f"The file does not state that its layout is {layout}: programs that expect another one load it and "
            "compute with wrong weights."
        )


def _of_architecture(architecture: str | None, activation: str | None, upstream: bool) -> Iterator[str]:
    if upstream and architecture in _RELU2:
        yield (
            f"Upstream llama.cpp does not know architecture {architecture}, only bitnet, which it computes with SiLU: "
            "--arch bitnet makes a file that it loads. BitNet's forks of 2025 load this one."
        )
    if _takes_activation(architecture) and activation == "relu2":
        yield _RELU2_READ
    if upstream and architecture in _NORM_IN:
        yield (
            f"Upstream llama.cpp loads no {architecture} with *_norm_in tensors (wrong number of tensors): "
            "BitNet's fork of 2026 does."
        )


def _of_group_types(types: set[str], way_out: str) -> Iterator[str]:
    """Yield the programs that read types with a scale for each group or row."""
    if types & {"PQ2_0", "PTQ1_0"}:
        yield (
            "Only PrismML's llama.cpp fork, since August 2026, and programs made for its types read 142 and 143; "
            f"llama.cpp refuses the file. {way_out}"
        )
    if "Q2_0_G128" in types:
        yield (
            "Groups of 128 under type 42 are read by PrismML's branch prism-v5 alone; every other program takes them for "
            f"groups of 64, and refuses the file. --to PQ2_0 makes one for PrismML's fork. {way_out}"
        )
    if types & {"IQ1_BN", "IQ2_BN"}:
        yield "Only ik_llama.cpp reads IQ1_BN and IQ2_BN."
    if "I2_SR" in types:
        yield (
            "One fork of BitNet (sabdulmajid/BitNet) has I2_SR under type 40, which is NVFP4 to llama.cpp, and under "
            f"general.file_type 41, which is Q2_0 there. {way_out}"
        )
    if "Q2_0" in types:
        yield (
            "llama.cpp reads Q2_0 since July 2026 (ggml-org/llama.cpp#24448) and refuses it before; PrismML's fork does "
            "since August 2026, and took it for groups of 128 before. Activations are quantized per 32 elements, where "
            "I2_S kernels do it per token: the weights are the same, the results are close and not equal."
        )


def _of_blocks_of_256(types: set[str], rows: Collection[int], upstream: bool) -> Iterator[str]:
    if not types & {"TQ1_0", "TQ2_0"}:
        return
    if upstream:
        yield (
            "llama.cpp quantizes activations per 256 elements for TQ1_0 and TQ2_0, where I2_S kernels do it per token: "
            "the weights are the same, the results are close and not equal."
        )
    if any(row % 256 for row in rows) and not any(row % _GROUP for row in rows):
        uneven = min(row for row in rows if row % 256)
        yield (
            f"Rows of {uneven:,} are not whole blocks of 256, and stay floats; --to Q2_0, which llama.cpp reads since July "
            "2026, can hold them: its groups have 64."
        )
