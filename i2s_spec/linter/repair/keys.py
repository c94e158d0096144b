"""Repairs of key-values: their names, duplicates and types, and values that follow from the rest of the file.

The first part is about names that no loader looks up, keys that occur twice, and values of an unexpected type; the
second about values of metadata (`plan.derived` says which follow) and names of architectures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from i2s_spec.convert.rewrite import Edit, check_architecture
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.reader import KeyValue
from i2s_spec.gguf.split_set import TYPES
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.repair.plan import Action, Declined, Outcome, Undecided, derived, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema import type_registry
from i2s_spec.schema.architectures import PREFIXES, resembles
from i2s_spec.schema.types import ValueType


def _without(workspace: Workspace, finding: Finding, entry: KeyValue, why: str) -> Action:
    does = f"key {quote(entry.name)} is removed: {why}"
    return Action(finding.code, finding.span, does, (workspace.without_key(entry),), safe=False)


@repair("G202", Fix.UNSAFE, "key-values without a name are removed")
def drop_nameless(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No loader can look them up (clause 2.4)."""
    for finding in workspace.findings(code):
        yield _without(workspace, finding, workspace.entry(finding), "nothing can look it up")


@repair("G203", Fix.UNSAFE, "the first value of a key is kept")
def keep_first_value(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The loaders of the BitNet lineage take the first (clause 2.4)."""
    twice = {workspace.entry(finding).name: finding for finding in workspace.findings(code)}
    met: set[bytes] = set()
    for i, name in workspace.subject.key_names() if twice else ():
        if name in twice and name in met:
            yield _without(
                workspace, twice[name], workspace.file.metadata.by_index(i), "the first one of that name is kept"
            )
        met.add(name)


@repair("G221", Fix.UNSAFE, "keys that are not UTF-8 are removed")
@repair("G206", Fix.UNSAFE, "keys with control characters are removed")
@repair("G205", Fix.UNSAFE, "keys that are not ASCII are removed")
def drop_odd_keys(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No loader asks for such a key; the key that it imitates is not guessed (clause 2.4).

    C code that stops at a NUL may take a key with one for another.
    """
    what = {"G205": "that is not ASCII", "G206": "with control characters", "G221": "that is not UTF-8"}[code]
    for finding in workspace.findings(code):
        yield _without(workspace, finding, workspace.entry(finding), f"no loader asks for a key {what}")


@repair("G208", Fix.UNSAFE, "of keys that differ only in case or blanks, the plain one is kept")
def keep_plain_key(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The specification's keys are lower-case and have no blanks (clause 2.4); if no key is like that, the first is
    kept."""
    findings = list(workspace.findings(code))
    places = dict(reversed([(name, i) for i, name in workspace.subject.key_names()])) if findings else {}
    for finding in findings:
        later = workspace.entry(finding)
        other = workspace.file.metadata.by_index(places[finding.want])
        entry = other if later.name == later.name.strip().lower() and later.name.isascii() else later
        yield _without(workspace, finding, entry, "another key reads like it")


@repair("G232", Fix.UNSAFE, "keys about splitting get the type that loaders ask for")
@repair("M003", Fix.UNSAFE, "values get the type that loaders ask for, if they fit")
def wanted_type(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The value stays the same number; one that the type cannot hold is left as it is (clauses 2.8 and 3.1)."""
    for finding in workspace.findings(code):
        entry = workspace.entry(finding)
        value = workspace.file.metadata.decode(entry)
        why = "it holds no number"
        for label in str(finding.want).split(" or "):
            try:
                edit = workspace.with_value(entry, fitted(value, label), label)
            except (TypeError, ValueError) as error:
                why = str(error)
                continue
            does = f"key {quote(entry.name)} becomes {label}, it was {entry.label}"
            yield Action(code, finding.span, does, (edit,), safe=False)
            break
        else:
            yield Declined(code, finding.span, f"the value of {quote(entry.name)} does not fit: {why}")


@repair("G237", Fix.UNSAFE, "the keys about splitting are removed from a file that has all tensors")
def drop_leftover_split(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """A loader of one file asks for none of them (clause 2.8)."""
    for finding in workspace.findings(code):
        entries = [entry for entry in workspace.file.metadata.rows if entry.name in TYPES]
        does = "split.no, split.count and split.tensors.count are removed: every tensor that they announce is here"
        edits = tuple(map(workspace.without_key, entries))
        yield Action(code, finding.span, does, edits, safe=False)


def fitted(value: Any, label: str) -> Any:
    """Return a value as one of another type, the same number.

    :param label: of the type, such as `u32` or `arr[f32]`
    :raises ValueError, TypeError: for a value that is no such number
    """
    if (label.startswith("arr[")) != (hasattr(value, "__len__") and not isinstance(value, str)):
        raise TypeError(f"it is {'a single value' if label.startswith('arr[') else 'an array'}")
    if isinstance(value, str):
        raise TypeError("it is text")
    if label == "bool" and isinstance(value, float):
        raise TypeError("it is not a truth value")
    if isinstance(value, bool):
        return int(value) if label != "bool" else value
    if isinstance(value, float) and label[0] in "ui":
        if not value.is_integer():
            raise ValueError(f"{value} is not a whole number")
        return int(value)
    if label in {"f32", "arr[f32]"}:
        _require_exact(value)
    return value


def _require_exact(value: Any) -> None:
    """Refuse integers that float32 cannot represent; fractions are rounded, as every reader of the key does."""
    if isinstance(value, int):
        if value and abs(value) >> 24 and abs(value) % (1 << abs(value).bit_length() - 24):
            raise ValueError(f"float32 cannot represent {value}")
    elif (
        getattr(getattr(value, "dtype", None), "kind", None) in {"i", "u"}
        and (value.astype("f4").astype("O") != value).any()
    ):
        raise ValueError("it has whole numbers that float32 cannot represent")


# --- values that follow from the rest of the file --------------------------------------------------------------------

_ARCHITECTURE = "general.architecture"


def _with_key(workspace: Workspace, finding: Finding, key: str, value: Any, kind: Any, safe: bool = False) -> Action:
    """Set a key to a value, whether or not it is there."""
    shown = quote(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    if key in workspace.file.metadata:
        edit, does = workspace.with_value(workspace.file.metadata.entry(key), value, kind), "becomes"
    else:
        edit, does = workspace.new_key(key, value, kind), "is added:"
    return Action(finding.code, finding.span, f"key {quote(key)} {does} {shown}", (edit,), safe)


@repair("M012", Fix.SAFE, "general.quantization_version = 2 is added")
def quantization_version(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No other value is right in any GGUF file (clause 3.1)."""
    for finding in workspace.findings(code):
        yield _with_key(workspace, finding, "general.quantization_version", 2, ValueType.UINT32, safe=True)


@repair("M030", Fix.SAFE, "general.file_type becomes the number for the type of most weights")
def file_type(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The number only describes the types of the tensors; nothing is computed from it (clause 3.1)."""
    for finding in workspace.findings(code):
        kind = str(finding.details["kind"])
        numbers = type_registry.file_types_of(kind)
        if len(numbers) != 1:
            words = (
                f"several numbers for {kind}: {', '.join(map(str, numbers))}" if numbers else f"no number for {kind}"
            )
            yield Declined(code, finding.span, f"general.file_type has {words}")
        else:
            yield _with_key(workspace, finding, "general.file_type", numbers[0], ValueType.UINT32, safe=True)


@repair("M008", Fix.SAFE, "rope.dimension_count becomes the width of a head")
def rope_dimensions(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders accept no other value (clause 3.4); safe because the shapes of attn_k confirm the width."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        heads, key = known.keys.own("attention.head_count_kv"), known.present.get("blk.0.attn_k.weight")
        heads = heads if heads is not None else known.keys.own("attention.head_count")
        if key is None or not isinstance(heads, int) or key.ne[1:] != (heads * finding.want,):
            yield Declined(code, finding.span, f"attn_k does not confirm that heads are {finding.want:,} wide")
            continue
        name = f"{known.name}.rope.dimension_count"
        yield _with_key(workspace, finding, name, finding.want, ValueType.UINT32, safe=True)


@repair("M009", Fix.UNSAFE, "rope.dimension_count is added: the width of a head")
def unsaid_rope_dimensions(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The published models whose heads do not fill the hidden state rotate whole heads (clause 3.4)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        name = f"{known.name}.rope.dimension_count"
        yield _with_key(workspace, finding, name, finding.got, ValueType.UINT32)


@repair("M010", Fix.UNSAFE, "rope.freq_base is added, with the value of the published models")
def published_rope_base(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Right for the published models and their fine-tunes, unless their makers changed it (clause 3.4)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        assert known.model.rope_base is not None
        name = f"{known.name}.rope.freq_base"
        if any(key.endswith(b".rope.freq_base") for _, key in workspace.subject.key_names()):
            yield Declined(code, finding.span, "there is one of another architecture, which may be the intended one")
            continue
        yield _with_key(workspace, finding, name, known.model.rope_base, ValueType.FLOAT32)


@repair("M002", Fix.UNSAFE, "missing keys are added if their values follow from the tensors")
def missing_keys(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """See `derived` for which they are (clause 3.1)."""
    known = architecture_view(workspace.subject)
    for outcome in following_values(workspace, code):
        if isinstance(outcome, Declined) and known.name == "" and _ARCHITECTURE in outcome.why:
            prefixes = {name for name in PREFIXES if f"{name}.block_count" in workspace.file.metadata}
            finding = next(iter(workspace.findings(code)))
            if len(prefixes) == 1:
                yield _with_key(workspace, finding, _ARCHITECTURE, prefixes.pop(), ValueType.STRING)
                continue
        yield outcome


#: The keys that follow from the tensors where a finding names none; the first that does is set.
_FOLLOWING: Final[Mapping[str, tuple[str, ...]]] = {
    "M006": ("attention.head_count", "attention.key_length", "attention.value_length"),
    "M007": ("attention.head_count_kv",),
    "M013": ("vocab_size",),
}


@repair("M013", Fix.UNSAFE, "vocab_size becomes the number of tokens")
@repair("M007", Fix.UNSAFE, "the number of key heads is taken from attn_k")
@repair("M006", Fix.UNSAFE, "the number of heads is taken from attn_q")
@repair("M005", Fix.UNSAFE, "arrays get the values that follow from the tensors of each layer")
@repair("M004", Fix.UNSAFE, "impossible values are replaced by those that follow from the tensors")
def following_values(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """See `derived` for which values follow from the tensors (clauses 3.2 and 3.3).

    The number of heads does only if a key or a norm gives the width of a head, and the size of the vocabulary only if
    the embedding has as many rows.
    """
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        why = ""
        for name in _FOLLOWING.get(code) or (str(finding.details["key"]),):
            key = name if name.startswith(("general.", f"{known.name}.")) else f"{known.name}.{name}"
            try:
                value = derived(known, key)
            except Undecided as error:
                why = why or f"{quote(key)}: {error}"
                continue
            kind = "u32" if isinstance(value, int) else "arr[u32]"
            if known.keys.has(key) and known.keys.value(key) == value:
                why = why or f"{quote(key)} already agrees with the tensors"
                continue
            yield _with_key(workspace, finding, key, value, kind)
            break
        else:
            yield Declined(code, finding.span, why)


@repair("M014", Fix.UNSAFE, "expert_used_count is removed if there are no experts")
def no_experts(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """A model without experts uses none (clause 3.2)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        key = f"{known.name}.expert_used_count"
        if finding.want or key not in workspace.file.metadata:
            yield Declined(code, finding.span, "the file does not say how many experts a token uses")
            continue
        edit = workspace.without_key(workspace.file.metadata.entry(key))
        yield Action(code, finding.span, f"key {quote(key)} is removed: there are no experts", (edit,), safe=False)


@repair("M015", Fix.UNSAFE, "rope.scale_linear is removed")
def one_scaling(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders that know its present name, rope.scaling.factor, prefer that (clause 3.4)."""
    for finding in workspace.findings(code):
        entry = workspace.entry(finding)
        does = f"key {quote(entry.name)} is removed: rope.scaling.factor takes precedence"
        yield Action(code, finding.span, does, (workspace.without_key(entry),), safe=False)


# Names of architectures.


def _prefixed(workspace: Workspace, former: str, arch: str) -> list[Edit]:
    """Return the keys of one architecture renamed to those of another, except those that it has already."""
    metadata = workspace.file.metadata
    return [
        workspace.with_key(entry, arch + entry.key[len(former) :])
        for entry in metadata.rows
        if entry.key.startswith(f"{former}.") and arch + entry.key[len(former) :] not in metadata
    ]


def renamed_architecture(workspace: Workspace, finding: Finding, former: str, arch: str) -> Outcome:
    """Rename an architecture, and its keys with it, if the tensors are those of the new one."""
    try:
        check_architecture(workspace.file, former, arch)
    except ValueError as error:
        return Declined(finding.code, finding.span, str(error))
    keys = _prefixed(workspace, former, arch)
    entry = workspace.file.metadata.entry(_ARCHITECTURE)
    does = f"the architecture becomes {arch}" + (
        f", and {counted(len(keys), 'key is', 'keys are')} renamed with it" if keys else ""
    )
    edits = (workspace.with_value(entry, arch, ValueType.STRING), *keys)
    return Action(finding.code, finding.span, does, edits, safe=False)


@repair("M001", Fix.UNSAFE, "the architecture and its keys get the intended name")
def known_architecture(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Only if the name differs from a known one in punctuation, and the tensors are those of that architecture (clause
    3.1)."""
    for finding in workspace.findings(code):
        former = str(finding.got)
        arch = resembles(former)
        if arch is None:
            yield Declined(code, finding.span, "the name resembles no known architecture")
        else:
            yield renamed_architecture(workspace, finding, former, arch)


@repair("M019", Fix.UNSAFE, "bitnet-25 becomes bitnet-b1.58, and the keys with it")
def present_name(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The graph and the tensors are the same (clause 3.1)."""
    for finding in workspace.findings(code):
        yield renamed_architecture(workspace, finding, str(finding.got), str(finding.want))


@repair("M018", Fix.UNSAFE, "keys of another architecture are renamed")
def own_prefix(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """All keys with that prefix: optional ones, too, change what is computed (clause 3.1)."""
    known: ArchitectureView = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        suffix = str(finding.want).removeprefix(known.name)
        former = workspace.entry(finding).key.removesuffix(suffix)
        edits = _prefixed(workspace, former, known.name)
        does = f"{counted(len(edits), 'key')} of {quote(former)} renamed to those of {known.name}"
        yield Action(code, finding.span, does, tuple(edits), safe=False)
