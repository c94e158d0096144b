"""The tables of chapters 3 and 4 and of section 9.6: the keys, the tensors and the properties of each architecture."""

from __future__ import annotations

from i2s_site.runtimes import table
from i2s_spec.convert.recipes import RECIPES
from i2s_spec.schema import keys, kinds, rotation
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.inventory import BESIDE, TensorSpec
from i2s_spec.schema.keys import OPTIONAL, Key

#: The sections that have a table of keys, and of tensors.
KEY_CLAUSES = ("3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.8")
TENSOR_CLAUSES = ("4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.8")

#: Where a key is needed, in words.
_WHEN = {"gpt2": ", for gpt2", "llama": ", for llama", "quantized": ", where a tensor is quantized"}

#: In which files, or layers, a tensor is, in words.
_LAYERS = {
    "dense": ", without experts", "experts": ", with experts", "attention": ", in layers with attention",
    "delta": ", in layers with a delta net", "nextn": ", in layers for later tokens",
}  # fmt: skip


def _code(words: object) -> str:
    return f"`{words}`"


def declared_keys() -> tuple[Key, ...]:
    """Every key, those of single architectures with the name of the architecture."""
    own = dict.fromkeys(key.of(each.prefix) for each in ARCHITECTURES.values() for key in each.own_keys)
    return (*keys.GENERAL, *keys.MODEL, *own, *keys.EMBEDDING_MODEL, *keys.TOKENIZER, *rotation.KEYS)


def keys_of(clause: str) -> str:
    """Return the keys of a section of chapter 3."""
    rows = [_key_row(key) for key in declared_keys() if key.clause == clause]
    return table(["key", "type", "need", "without it", "read by", "meaning"], rows)


def _key_row(key: Key) -> list[str]:
    default = key.otherwise or (str(key.default).lower() if isinstance(key.default, bool) else "")
    if not default and key.default is not None:
        default = f"{key.default:g}" if isinstance(key.default, float) else str(key.default)
    meaning = key.meaning + (f" ({key.note})" if key.note else "")
    need = key.need + _WHEN.get(key.when, "")
    return [_code(key.name), ", ".join(key.types), need, default, ", ".join(key.readers), meaning]


def architectures_declared() -> str:
    """Return the architectures, with the properties of their graphs and of the published models."""
    rows = []
    for a in ARCHITECTURES.values():
        base = f"{a.rope_base:g}" if a.rope_base is not None else "10000"
        epsilon = " or ".join(f"{each:g}" for each in a.eps)
        rows.append([_code(a.name), a.title, a.tokenizer, a.activation, a.rope, a.head, base, epsilon])
    head = ["architecture", "models", "tokenizer", "activation", "rotated pairs", "head", "base", "epsilon"]
    return table(head, rows)


def kinds_of_files() -> str:
    """Return the kinds of files: how each is recognised, and what uses it."""
    rows = [[kind.title, kind.recognised, kind.used] for kind in kinds.KINDS.values()]
    return table(["kind", "recognised by", "used"], rows)


def projectors() -> str:
    """Return the types of projectors that llama.cpp's loader knows, with the keys that each needs besides those of
    all.
    """
    known = kinds.projector_table()
    source = known["source"].removeprefix("ggml-org/").partition(":")[0]
    rows = []
    for name, row in known["types"].items():
        if "replaced" in row:
            needs = " and ".join(f"{_code(other)} for {encoder}" for encoder, other in row["replaced"].items())
        elif "refused" in row:
            needs = "known by name, and not loaded"
        else:
            needs = ", ".join(map(_code, row.get("keys", {}))) or "no further keys"
        tensors = sum(len(group["names"].split()) for group in row.get("tensors", ()))
        rows.append([_code(name), needs, str(tensors) if "tensors" in row else "", source])
    return table(["clip.projector_type", "keys of its own", "tensors of its own", "read from"], rows)


def order_of_keys() -> str:
    """Return the order in which converters write keys."""
    rows = [[_code(name), ", ".join(map(_code, recipe.keys))] for name, recipe in RECIPES.items()]
    return table(["architecture", "order of the keys"], rows)


def tensors_of(clause: str) -> str:
    """Return the tensors of a section of chapter 4, each once, with the architectures that have it as it is
    declared.
    """
    found: dict[tuple[object, ...], tuple[TensorSpec, list[str]]] = {}
    for architecture in ARCHITECTURES.values():
        for spec in architecture.inventory:
            if spec.clause == clause:
                key = (spec.name, spec.ne, spec.types, spec.need, spec.meaning)
                found.setdefault(key, (spec, []))[1].append(architecture.name)
    head = ["tensor", "ne", "types", "need", "architectures", "meaning"]
    rows = [_tensor_row(*each) for each in found.values()]
    general = (spec._replace(meaning=spec.meaning.replace("{name}", "NAME.weight")) for spec in BESIDE)
    rows += [_tensor_row(spec, ["all"]) for spec in general if spec.clause == clause]
    return table(head, rows)


def _tensor_row(spec: TensorSpec, names: list[str]) -> list[str]:
    need = spec.need + _LAYERS.get(spec.when, "")
    meaning = spec.meaning + (f" ({spec.note})" if spec.note else "")
    return [_code(spec.name), ", ".join(spec.ne), ", ".join(spec.types), need, ", ".join(names), meaning]


def order_of_tensors() -> str:
    """Return the order in which converters write tensors."""
    rows = []
    for architecture in ARCHITECTURES.values():
        specs = [spec for spec in architecture.inventory if spec.need != OPTIONAL and spec.when != "experts"]
        layer = [spec.name[8:].removesuffix(".weight") for spec in specs if spec.per_layer]
        first = next(i for i, spec in enumerate(specs) if spec.per_layer)
        before = ", ".join(_code(spec.name) for spec in specs[:first])
        after = ", ".join(_code(spec.name) for spec in specs[first:] if not spec.per_layer)
        rows.append([_code(architecture.name), ", ".join(layer), str(len(layer)), before, after])
    return table(["architecture", "in each layer", "tensors of a layer", "before the layers", "after them"], rows)


def activations() -> str:
    """Return the activation of each architecture."""
    found: dict[str, list[str]] = {}
    for architecture in ARCHITECTURES.values():
        found.setdefault(architecture.activation, []).append(_code(architecture.name))
    return table(["architecture", "activation"], [[", ".join(names), value] for value, names in found.items()])
