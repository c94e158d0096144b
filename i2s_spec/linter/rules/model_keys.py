"""Rules about the keys of a model: which ones it has, their types and names, and those that declare a rotation."""

from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.conditions import declared_models, known_models, ternary_by_type_or_key
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.loader_view import ceiling, is_old, loader_table, loader_view, refuses
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema import kinds
from i2s_spec.schema.architectures import PREFIXES, resembles
from i2s_spec.schema.faults import KEY_COUNT_SPAN
from i2s_spec.schema.keys import (
    ARCHITECTURE_UNKNOWN,
    GENERAL,
    KEY_MISSING,
    KEY_TYPE,
    READ_BY_LOADERS,
    REQUIRED,
)
from i2s_spec.schema.rotation import KEYS, PREFIX, Rotation, RotationError, declared
from i2s_spec.schema.types import BY_NAME

_ARCHITECTURE: Final = "general.architecture"


def names_architecture(subject: LintContext) -> bool:
    """files that hold a model"""
    of_model = subject.kind is None or subject.kind.is_model
    return of_model and subject.file.index.tensors > 0 and architecture_view(subject).keys.has(_ARCHITECTURE)


@rule(ARCHITECTURE_UNKNOWN, clause="3.1", fix=Fix.UNSAFE, when=names_architecture,
      provenance=("microsoft/BitNet#212", "ikawrakow/ik_llama.cpp#365"))  # fmt: skip
def architecture_unknown(subject: LintContext) -> Iterator[Finding]:
    """The architecture is not known, so its keys, tensors and shapes are not checked.

    Why: loaders choose the graph by this exact name, and refuse other names: 'unknown model architecture'. A name that
    differs from a known one only in case or punctuation is a mistake. Another unknown name of a file with llama.cpp's
    tensors is a warning, since new architectures appear every month: the message says from which day the list is. With
    I2_S tensors it is an error: the few loaders that know this type know a few architectures.

    Example: 'bitnet-b1_58' or 'BitNet'.

    Fix: write the name of the architecture that the weights were trained for, and use it as the prefix of the keys.
    """
    known = architecture_view(subject)
    name = known.keys.value(_ARCHITECTURE) or ""
    if name in PREFIXES:
        return
    if not known.is_text_model or (not known.holds_model and resembles(name[:64]) is None):
        return  # no model of llama.cpp's family; the verdict says what was not checked
    table = loader_table()
    if name in table.names or name in table.named_only:
        return
    meant = resembles(name[:64], table.names)
    why = f"neither bitnet.cpp nor {table.version} knows it"
    words = f"{meant} may be meant" if meant is not None else "its keys, tensors and shapes are not checked"
    certain = subject.has_i2s or (meant is not None and not is_old(table))
    yield architecture_unknown.at(
        known.keys.value_span(_ARCHITECTURE), got=name, want=TrustedText(f"{why}; {words}")
    ).at_most(None if certain else WARNING)  # fmt: skip


#: Keys of a rotation, which any architecture may have and none needs.
_OF_ROTATIONS: Final = frozenset(key.name for key in KEYS)


@analysis
def _missing(subject: LintContext) -> list[str]:
    """Return the required keys that a file does not have, except those of the vocabulary, which have their own
    rules.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    missing = []
    if known.is_declared:
        declared = (key for key in known.model.keys.values() if key.need == REQUIRED and not key.when)
        names = (key.name for key in declared if not key.name.startswith("tokenizer."))
        missing = [name for name in names if name not in known.keys.places]
    if loader is not None:
        missing += [name for name in loader.missing_keys if not name.startswith("tokenizer.")]
    return list(dict.fromkeys(missing))


@analysis
def _foreign(subject: LintContext) -> dict[str, tuple[int, bytes]]:
    """Return the missing keys of which the file has that of another architecture, each with the row and name of that."""
    found: dict[str, tuple[int, bytes]] = {}
    own = subject.architecture
    suffixes = {name.removeprefix(own).encode(): name for name in _missing(subject) if name.startswith(own)}
    for i, name in subject.key_names() if suffixes else ():
        for suffix, key in suffixes.items():
            if name.endswith(suffix) and key not in found and not name.startswith(b"general."):
                found[key] = i, name
    return found


def holds_model(subject: LintContext) -> bool:
    """files that hold a model"""
    return architecture_view(subject).holds_model


@rule(KEY_MISSING, clause="3.1", fix=Fix.UNSAFE, when=holds_model,
      provenance=("CVE-2025-0312",))  # fmt: skip
def key_missing(subject: LintContext) -> Iterator[Finding]:
    """A key is missing that loaders need.

    Why: loaders derive the tensors, their shapes or the graph from it, and have no default: 'key not found in model'.
    ik_llama.cpp reads two of these keys as 0 instead.

    Example: a bitnet-b1.58 file without bitnet-b1.58.context_length.

    Fix: write the key; its value is in the config.json of the model.
    """
    known = architecture_view(subject)
    if _ARCHITECTURE not in known.keys.places:
        yield key_missing.at(KEY_COUNT_SPAN, key=TrustedText(_ARCHITECTURE), by=TrustedText(""))
    loader = loader_view(subject)
    for name in _missing(subject):
        if name not in _foreign(subject):
            by = refuses(subject) if loader is not None and name in loader.missing_keys else TrustedText("")
            yield key_missing.at(KEY_COUNT_SPAN, key=TrustedText(name), by=by).at_most(ceiling(subject))


#: What is declared for files whose architecture is not known.
_NAMING: Final = {key.name: key for key in GENERAL if key.name == _ARCHITECTURE}

_DOCUMENT = ", which the GGUF document allows but no loader of I2_S accepts"


def with_architecture_key(subject: LintContext) -> bool:
    """models and vocabularies that name an architecture"""
    kind = subject.kind
    of_model = kind is None or kind.is_model or kind.name == kinds.VOCABULARY
    return of_model and b"general.architecture" in subject.key_index


@rule(KEY_TYPE, clause="3.1", fix=Fix.UNSAFE, cwe=843,
      provenance=("ggml-org/llama.cpp#26690",), when=with_architecture_key)  # fmt: skip
def key_type(subject: LintContext) -> Iterator[Finding]:
    """A key does not have the type that loaders expect.

    Why: loaders compare types strictly and refuse most keys of a wrong type. general.file_type ends the process of the
    BitNet fork, and arrays of the tokenizer are read through a pointer whatever their element type is. The GGUF
    document uses u64 for most counts and lengths and asks readers to accept u32 as well; loaders of I2_S accept u32
    only. With --profile spec, such a u64 is not reported. A key that no loader reads is a warning.

    Example: llama.vocab_size as an i32, or tokenizer.ggml.tokens as one string.

    Fix: write the key with the type that the specification gives; the value may have to be converted.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    index = subject.file.index
    reported: set[int] = set()
    declared = known.keys.declared if known.architecture is not None or loader is not None else _NAMING
    for i in index.keys_named({each.encode("utf-8", "surrogateescape") for each in declared}):
        name = index.key(i).name
        key = declared.get(name.decode("utf-8", "surrogateescape"))
        label = index.key(i).label
        if key is None or name == b"general.alignment" or label in key.types:
            continue
        if known.architecture is None and key.name.startswith(f"{known.name}."):
            continue  # the table knows these
        of_document = label == key.document
        reported.add(i)
        if of_document and subject.by_document:
            continue
        got = TrustedText(f"a value of type {label}" + _DOCUMENT * of_document)
        finding = key_type.at(index.key(i).type_span, got=got, want=TrustedText(" or ".join(key.types)), key=name)
        tolerated = label in key.tolerated and not subject.has_i2s
        yield finding.at_most(WARNING if tolerated or not READ_BY_LOADERS.intersection(key.readers) else None)
    for wrong in () if loader is None else loader.wrong_keys:
        if wrong.i not in reported:
            got = TrustedText(f"a value of type {wrong.got}")
            span = index.key(wrong.i).type_span
            yield key_type.at(span, got=got, want=TrustedText(wrong.want), key=wrong.name).at_most(ceiling(subject))


@rule("M012", "quantization-version-missing", "general.quantization_version is missing in a file with quantized "
      "tensors ({count})", severity=WARNING, clause="3.1", fix=Fix.SAFE, when=declared_models)  # fmt: skip
def quantization_version_missing(subject: LintContext) -> Iterator[Finding]:
    """general.quantization_version is missing in a file with quantized tensors.

    Why: the GGUF document requires the key in such files. No loader needs it, and BitNet's Python converters leave it
    out; llama-quantize writes 2.

    Example: a file that convert-hf-to-gguf-bitnet.py wrote with --outtype i2_s.

    Fix: write general.quantization_version = 2.
    """
    known = architecture_view(subject)
    if "general.quantization_version" in known.keys.places:
        return
    quantized = sum(row.type not in ("", "F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64") for row in known.rows)
    if quantized:
        yield quantization_version_missing.at(KEY_COUNT_SPAN, want=2, count=quantized)


@rule("M016", "name-missing", "general.name is missing", severity=NOTE, clause="3.1", when=declared_models)
def name_missing(subject: LintContext) -> Iterator[Finding]:
    """The model has no name.

    Why: programs display general.name; without it they list the file as unknown.

    Example: a file that was assembled by hand.

    Fix: write general.name.
    """
    known = architecture_view(subject)
    if "general.name" not in known.keys.places:
        yield name_missing.at(KEY_COUNT_SPAN)


#: First segments of keys that do not belong to the model and that the schema does not list.
_OTHERS: Final = (b"split.", b"quantize.", b"adapter.", b"general.base_model.", b"general.dataset.", b"general.source.",
                  b"general.quantized_by", b"imatrix.", b"tokenizer.chat_template.", b"tritium.",
                  b"c2pa:manifest")  # fmt: skip


@rule("M017", "keys-undeclared", "keys that the specification does not know: {got}; the first is {key}", severity=NOTE,
      clause="3.1", when=ternary_by_type_or_key)  # fmt: skip
def keys_undeclared(subject: LintContext) -> Iterator[Finding]:
    """The file has keys that are not declared for its architecture.

    Why: loaders of I2_S ignore keys that they do not know, so a misspelled key has the same effect as a missing one,
    without a message.

    Example: bitnet-b1.58.rope.freq_bass.

    Fix: compare the names with the tables of the specification, and remove keys that no program reads.
    """
    known = architecture_view(subject)
    count, first, loader = 0, None, loader_view(subject)
    read = () if loader is None else loader.keys
    # All keys with the prefix of another architecture are misnamed.
    others = {name[: len(name) - len(key) + len(known.name)] + b"." for key, (_, name) in _foreign(subject).items()}
    spoken_of = (*_OTHERS, *others)
    for i, name in subject.key_names():
        key = name.decode("utf-8", "surrogateescape")
        if key in known.keys.declared or name.startswith(spoken_of) or key in _OF_ROTATIONS or key in read:
            continue
        count += 1
        first = first or (i, name)
    if first is not None:
        yield keys_undeclared.at(subject.key_span(first[0]), got=count, want=0, key=first[1])


@rule("M018", "foreign-prefix", "the key {key} is missing; the file has {got}, which belongs to another architecture",
      clause="3.1", fix=Fix.UNSAFE, when=known_models, provenance=("microsoft/BitNet#212",))  # fmt: skip
def foreign_prefix(subject: LintContext) -> Iterator[Finding]:
    """A key has the prefix of another architecture.

    Why: keys begin with the value of general.architecture. If only that value was changed, loaders do not find the
    other keys: 'key not found in model'.

    Example: bitnet-25.block_count in a file whose architecture is bitnet-b1.58.

    Fix: rename the keys together with the architecture.
    """
    for key, (i, name) in _foreign(subject).items():
        yield foreign_prefix.at(subject.key_span(i), got=name, want=TrustedText(key), key=TrustedText(key))


def renamed(subject: LintContext) -> bool:
    """models of architecture bitnet-25"""
    return declared_models(subject) and architecture_view(subject).model.renamed_to is not None


@rule("M019", "former-name", "the architecture is called bitnet-25, its name until 22 April 2025; the current name is "
      "bitnet-b1.58", severity=NOTE, clause="3.1", fix=Fix.UNSAFE, when=renamed,
      provenance=("microsoft/BitNet#212", "ikawrakow/ik_llama.cpp#366"))  # fmt: skip
def former_name(subject: LintContext) -> Iterator[Finding]:
    """The architecture has the name that was used before April 2025.

    Why: the graph and the tensors are the same, and loaders of the BitNet family know both names. Programs that were
    written for the current published file may know only the new name.

    Example: a file that convert-ms-to-gguf-bitnet.py wrote.

    Fix: rename the architecture and the keys if your programs need the new name.
    """
    known = architecture_view(subject)
    want = TrustedText(str(known.model.renamed_to))
    yield former_name.at(known.keys.value_span(_ARCHITECTURE), got=known.name, want=want)


# --- rotation --------------------------------------------------------------------------------------------------------
# PrismML's models fold a Hadamard rotation into their weights; keys declare it.

#: The numbers of the types in PrismML's own files; programs that know them also know the keys.
_OF_PRISM: Final = frozenset({BY_NAME["PQ2_0"].number, BY_NAME["PTQ1_0"].number})

#: Most elements of an array that is examined: published files have 28,672 signs.
_MOST: Final = 1 << 20


@analysis
def _places(subject: LintContext) -> dict[str, int]:
    """Return the key-values of a file that declare a rotation, by their names without the prefix."""
    prefix = PREFIX.encode()
    return {
        name[len(prefix) :].decode("ascii", "replace"): i for i, name in subject.key_names() if name.startswith(prefix)
    }


def with_rotation_keys(subject: LintContext) -> bool:
    """files with prism.hadamard keys"""
    return bool(_places(subject))


def with_rotated_types(subject: LintContext) -> bool:
    """files with tensors of types 142 and 143"""
    return not _OF_PRISM.isdisjoint(subject.type_numbers - subject.second_readings.keys())


def _declared(subject: LintContext) -> Rotation | RotationError | None:
    """Return the declared rotation, or what is wrong with the keys; None if there are too many to examine."""
    metadata = subject.file.metadata
    try:
        found = {key.name: metadata[key.name] for key in KEYS if key.name in metadata}
    except FormatError:  # other rules report these
        return None
    if any(isinstance(value, list) and len(value) > _MOST for value in found.values()):
        return None
    try:
        return declared({PREFIX: None, **found})
    except RotationError as error:
        return error
    except TypeError:
        return RotationError("version", "or another key has a value of another type than it should")


@rule("M040", "rotation-keys", "prism.hadamard.{key} {why}: the rotation of the weights is unknown", clause="3.8",
      when=with_rotation_keys, provenance=("PrismML-Eng/llama.cpp#119", "PrismML-Eng/llama.cpp#120"))  # fmt: skip
def rotation_keys(subject: LintContext) -> Iterator[Finding]:
    """The keys of a rotation are incomplete or invalid.

    Why: the weights are rotated, so the inputs of their products must be rotated too. PrismML's loader refuses the
    file; a loader that continues would compute noise. The block size is a power of two that divides every row. The
    signs are -1 and +1, as many for each width as it has elements, and the width of every folded weight is listed.

    Example: sign_mode explicit without sign_values, or a sign of 0.

    Fix: the file cannot be repaired. Convert the checkpoint again.
    """
    found, places = _declared(subject), _places(subject)
    if isinstance(found, Rotation):
        found = _misfit(subject, found)
    if isinstance(found, RotationError):
        at = places.get(found.key)
        span = KEY_COUNT_SPAN if at is None else subject.key_span(at)
        yield rotation_keys.at(span, got=found.key, key=TrustedText(found.key), why=TrustedText(found.why))


def _misfit(subject: LintContext, rotation: Rotation) -> RotationError | None:
    """Return the first contradiction to the tensors of the file."""
    rows = {name.decode("utf-8", "replace"): i for i, name in subject.tensor_names()}
    for key, names in (("weight_names", rotation.weights), ("inverse_weight_names", rotation.tables)):
        for name in names:
            if name not in rows:
                return RotationError(key, "names a tensor that the file does not have")
            width = subject.file.index.tensor(rows[name]).ne[0]
            try:
                rotation.require_width(width)
                rotation.signs_of(width)
            except RotationError as error:
                return error
    return None


@rule("M041", "rotation-ignored", "{count} of {total} weights that are rotated according to prism.hadamard have "
      "types that programs load without checking these keys; the first is {name} of type {kind}: such programs "
      "compute something else", severity=WARNING,
      clause="3.8", when=with_rotation_keys,
      provenance=("ggml-org/llama.cpp#29058", "ggml-org/llama.cpp#29077"))  # fmt: skip
def rotation_ignored(subject: LintContext) -> Iterator[Finding]:
    """Rotated weights have a type that programs without support for the rotation read.

    Why: only programs that know the keys read the types 142 and 143. Other programs read Q2_0 and similar types, too:
    llama.cpp, which closed the request for the rotation without merging it, loads such a file without a message, and
    the model writes nonsense.

    Example: prism.hadamard.* over tensors of type 42.

    Fix: run the file with PrismML's fork, or take a file whose weights are not rotated.
    """
    found = _declared(subject)
    if not isinstance(found, Rotation):
        return
    named = {name.encode() for name in (*found.weights, *found.tables)}
    rotated = [i for i, name in subject.tensor_names() if name in named]
    others = [i for i in rotated if subject.file.index.tensor(i).type not in _OF_PRISM]
    if others:
        first = subject.file.tensors.by_index(others[0])
        kind = first.type.name if first.type is not None else str(first.number)
        yield rotation_ignored.at(
            subject.info_span(others[0], "type"), got=first.number, count=len(others), total=len(rotated),
            name=first.raw_name, kind=TrustedText(kind),
        )  # fmt: skip


@rule("M042", "rotation-unsaid", "{count:tensor has|tensors have} type {got}, but no key declares how the rows "
      "are rotated: programs treat them as not rotated", severity=NOTE, clause="3.8",
      when=with_rotated_types,
      provenance=("PrismML-Eng/llama.cpp#242",))  # fmt: skip
def rotation_unsaid(subject: LintContext) -> Iterator[Finding]:
    """Tensors have types that PrismML made for rotated weights, but no key declares a rotation.

    Why: the weights may not be rotated, as in files that llama-quantize makes of other models. But if they are rotated
    and the keys were lost, the file loads without an error and the model writes nonsense.

    Example: a tool copied a Bonsai 2 file and left out the keys that it does not know.

    Fix: compare the keys with those of the file that it was made from.
    """
    tensor = subject.file.index.tensor
    rows = [i for i in range(subject.file.index.tensors) if tensor(i).type in _OF_PRISM]
    if not _places(subject):
        span: Span = subject.info_span(rows[0], "type")
        yield rotation_unsaid.at(span, got=tensor(rows[0]).type, count=len(rows))
