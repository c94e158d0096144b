"""Make records: a model runs over tokens, and everything that it computes on the way is stored (clause 10.2).

It runs layer after layer, so that no more than one layer's values are in memory.

    m = load_model("model.gguf")
    record(m, [1, 5, 9], "golden/")

The header counts the activation codes at which two correct quantizers may differ: `count_ambiguous`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

import numpy as np

from i2s_spec._version import __version__
from i2s_spec.errors import FormatError, SettingError, Span, counted, quote
from i2s_spec.golden.llama_cpp import GGML_OPS, BaseWriter, Sum, node_text, rows_of
from i2s_spec.golden.store import LOGITS, TEXT, Form, NewRecord
from i2s_spec.model.forward import Model
from i2s_spec.model.graph import TOKENS, base
from i2s_spec.model.load import load_model
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.source import Origin
    from i2s_spec.model.graph import Graph, Node
    from i2s_spec.schema.rotation import Rotation

#: Names that no record has: views of the key-value cache, and rows that were chosen from a tap that it has.
NOT_RECORDED: Final = frozenset({"k", "v", "result_rows"})

#: Names that a light record leaves out: what is quick to compute from its neighbors, or larger than they are.
NOT_LIGHT: Final = frozenset(
    {"norm", "kq", "kq_soft_max_ext", "kq_soft_max", "ffn_relu", "ffn_sqr(relu)", "ffn_silu", "ffn_gate_gelu",
     "act_q8", "dot_i32", "act_sum"}
)  # fmt: skip

#: Names of which a light record has the digest only.
DIGEST_ONLY: Final = frozenset({"acc_i32"})


def record(
    model: Model | Origin,
    tokens: Sequence[int] | NDArray[Any],
    folder: str | os.PathLike[str],
    *,
    light: bool = False,
    form: Form = "safetensors",
    text: Sum | None = None,
    kl_base: bool = False,
    source: str | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Record what a model computes for a sequence of tokens.

    :param model: a loaded model, or what `load_model` takes; then it is loaded with its defaults, and closed
    :param folder: the record; it appears when it is complete
    :param light: the set for big models: no soft-max rows, no codes, of accumulators the digests
    :param form: of the file of the taps: `safetensors` or `npz`
    :param text: write the text of llama.cpp's eval-callback too, with the sum of `all` or of the `shown` elements
    :param kl_base: write llama-perplexity's file for `--kl-divergence` too, the tokens being its only chunk
    :param source: the text that the tokens come from, for people
    :param force: replace a record that is there
    :param progress: called with (layers done, layers)
    :returns: the header of the record
    :raises SettingError: for tokens that `Model.forward` refuses, and for a base of fewer than four tokens
    :raises FormatError: M901 for a model whose logits are NaN or infinite: nothing can be compared with them
    :raises FileExistsError: where the folder is taken
    """
    if not isinstance(model, Model):
        with load_model(model) as loaded:
            return record(
                loaded, tokens, folder, light=light, form=form, text=text, kl_base=kl_base, source=source, force=force,
                progress=progress,
            )  # fmt: skip
    ids = model.check_tokens(tokens)
    if kl_base and (len(ids) < 4 or model.architecture.embedding_model):
        raise SettingError("a base for --kl-divergence needs at least four tokens, and a model with logits")
    with NewRecord(folder, form, force=force) as new:
        writer = _Writer(model, ids, new, light, text)
        writer.run(progress)
        if kl_base:
            first = len(ids) // 2
            with open(new.path(LOGITS), "wb") as file:
                rows = writer.result[first : first + rows_of(len(ids))]
                BaseWriter(file, [ids.tolist()], rows.shape[-1]).add(rows)
        header = {**header_of(model, ids), "text": source, "set": "light" if light else "full",
                  "bitlinear": writer.ambiguous}  # fmt: skip
        model.file.require_unchanged()
        new.finish(header)
        return {**header, "taps": new.taps}


def require_numbers(result: NDArray[np.float32]) -> None:
    """Raise where logits, or an embedding, are NaN or infinite: nothing can be compared with them.

    :param result: float32 [T, vocab] or [D]; -inf is a logit, that of a token that is never chosen
    :raises FormatError: M901
    """
    bad = np.argwhere(np.isnan(result) | (result == np.inf))
    if len(bad):
        place = tuple(int(each) for each in bad[0])
        raise FormatError(LOGITS_NOT_FINITE, Span(0, 0, "result_output"), got=float(result[place]), token=place[-1])


def header_of(model: Model, ids: NDArray[np.int64]) -> dict[str, Any]:
    """Return the header of a record: what it was made of, and how."""
    from i2s_spec.compare.hash import hash as identity_of

    found = identity_of(model.file, model.weights.dialect, threads=model.threads)
    rule = model.activation_rule
    return {
        "tool": {"name": "i2s-spec", "version": __version__},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()},
        "profile": model.numerics.name,
        "choices": {key: dict(value) if isinstance(value, dict) else value for key, value in asdict(model.numerics).items()},
        "weights": found.weights,
        "metadata": found.metadata,
        "dialect": str(model.weights.dialect),
        "architecture": model.architecture.name,
        "activation": {"name": rule.activation, "rule": rule.rule, "reason": rule.reason},
        "graph": {
            key: value for key, value in asdict(model.settings).items() if key not in ("activation", "rotation")
        },
        **_rotation_of(model.settings.rotation),
        "hyperparameters": {key: _plain(value) for key, value in vars(model.hyperparameters).items()}
        if hasattr(model.hyperparameters, "__dict__") else _fields(model.hyperparameters),
        "token_ids": [int(token) for token in ids],
    }  # fmt: skip


def _rotation_of(rotation: Rotation | None) -> dict[str, Any]:
    """Return what the header has about weights that are rotated; {} where none are."""
    if rotation is None:
        return {}
    widths = {str(width): sum(sign < 0 for sign in signs) for width, signs in rotation.signs.items()}
    return {"rotation": {"block": rotation.block, "weights": list(rotation.weights), "tables": list(rotation.tables),
                         "negative_signs": widths}}  # fmt: skip


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None) or value.__dataclass_fields__
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    """Return a hyperparameter as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


class _Writer:
    """One pass through the graph, every value into the record and then forgotten."""

    def __init__(self, model: Model, ids: NDArray[np.int64], new: NewRecord, light: bool, text: Sum | None) -> None:
        self.model, self.ids, self.new, self.light, self.text = model, ids, new, light, text
        self.ambiguous: dict[str, dict[str, int]] = {}
        self.result: Any = None

    def run(self, progress: Callable[[int, int], object] | None) -> None:
        if self.text is None:
            self._run(None, progress)
            return
        with open(self.new.path(TEXT), "w", encoding="utf-8") as file:
            self._run(file, progress)

    def _run(self, file: TextIO | None, progress: Callable[[int, int], object] | None) -> None:
        model, graph = self.model, self.model.graph
        head = graph.before_layers()
        (x,) = self._nodes(head, {TOKENS: self.ids}, file)
        for number in range(graph.layers):
            part = graph.layer(number)
            value, found = model.layer(number, x, ("*",))
            self._keep(part, {part.given[0]: x, **found}, file)
            x = value
            if progress is not None:
                progress(number + 1, graph.layers)
        tail = graph.after_layers()
        (self.result,) = self._nodes(tail, {tail.given[0]: x}, file)
        require_numbers(self.result)

    def _nodes(self, part: Graph, given: dict[str, Any], file: TextIO | None) -> list[Any]:
        """Return the nodes before or after the layers, one by one."""
        values = dict(given)
        for node in part:
            values.update(self.model.evaluate(node, values))
        self._keep(part, values, file)
        return [values[name] for name in part.results]

    def _keep(self, part: Graph, values: dict[str, Any], file: TextIO | None) -> None:
        """Put the values of some nodes into the record, in the order of computation."""
        for name in self.model.tap_names(part):
            word = base(name)
            if word in NOT_RECORDED or (self.light and word in NOT_LIGHT) or name not in values:
                continue
            node = part.by_name.get(name)
            about: dict[str, Any] = {"layer": node.layer, "op": node.op} if node is not None else {}
            if node is not None:
                about["inputs"] = list(recorded_inputs(self.model.graph, node))
            if node is not None and node.weights:
                about["weights"] = list(node.weights)
                about["type"] = self.model.weights.tensor_type(node.weights[0])
            self.new.add(name, values[name], stored=not (self.light and word in DIGEST_ONLY), **about)
        for node in part:
            self._count_ambiguous(node, values)
            if file is not None and self.text is not None and node.op in GGML_OPS:
                file.writelines(f"{line}\n" for line in self._text_of(node, values, self.text))

    def _count_ambiguous(self, node: Node, values: dict[str, Any]) -> None:
        """Count codes so near a rounding boundary that two correct quantizers may differ there."""
        prefix = node.weights[0].removesuffix(".weight") if node.weights else ""
        scale = values.get(f"{prefix}.act_scale")
        if node.op != "linear" or scale is None or scale.ndim != 1:
            return
        x = values[node.inputs[0]]
        self.ambiguous[prefix] = {"codes": int(x.size), "ambiguous": count_ambiguous(x, scale)}

    def _text_of(self, node: Node, values: dict[str, Any], sums: Sum) -> Iterable[str]:
        op = GGML_OPS[node.op]
        sources = [(name.partition("#")[0], np.shape(values[name])) for name in node.inputs]
        tensors = [(name, self.model.weights.tensor(name).shape) for name in node.weights]
        if node.op == "rope":
            tensors = [("inp_pos", (len(self.ids),))]
        listed = [*tensors, *sources] if op.weights_first else [*sources, *tensors]
        return node_text(node.name.partition("#")[0], op.name, listed, values[node.name], sums)


def recorded_inputs(graph: Graph, node: Node) -> Iterator[str]:
    """Yield the names of the values that enter an operation; in place of one that no record has, those that enter it."""
    for name in node.inputs:
        if base(name) in NOT_RECORDED:
            yield from recorded_inputs(graph, graph[name])
        elif name != TOKENS:
            yield name


def described(header: dict[str, Any]) -> str:
    """Return one line for people about what was recorded."""
    taps = header["taps"]
    stored = sum(tap["stored"] for tap in taps.values())
    profile = quote(header["profile"], bare=True)
    tokens = len(header["token_ids"])
    return f"{counted(tokens, 'token')}, {counted(len(taps), 'tap')} ({stored:,} stored), profile {profile}"


# --- rounding --------------------------------------------------------------------------------------------------------
# Codes so near a rounding boundary that two correct quantizers may differ there (clause 10.4).

#: How far, in units of a code, a product may be from a rounding boundary for two correct quantizers to differ.
AMBIGUOUS: Final = 127 * 2.0**-23


def is_ambiguous(products: NDArray[np.float64], rtol: float = 0.0) -> NDArray[np.bool_]:
    """Return which products of activations and their scale lie at a rounding boundary.

    :param rtol: how far off the activations may be, as a share of them
    """
    distance: NDArray[Any] = np.abs(np.mod(products, 1.0) - 0.5)
    found: NDArray[np.bool_] = distance <= AMBIGUOUS + 2 * rtol * (np.abs(products) + 1)
    return found


def count_ambiguous(x: NDArray[np.float32], scale: NDArray[np.float32]) -> int:
    """How many codes of a value lie at a rounding boundary."""
    with np.errstate(all="ignore"):
        return int(is_ambiguous(x.astype(np.float64) * scale.astype(np.float64)[:, None]).sum())
