"""Changes of the taps of a dump, described by a small program: left out, renamed, reordered, with other values or types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Program

from i2s_spec.golden.tap_names import other_names

Change = Callable[[dict[str, Any], str, Program], None]


def changed(change: Change, taps: dict[str, Any], program: Program) -> None:
    """A change of one tap, of all with one name, or of all."""
    names = list(taps)
    which = program.below(len(names) + 1)
    words = [names[which - 1]] if which else names
    if program.below(4) == 3 and which:
        word = words[0].partition("-")[0]
        words = [name for name in names if name.partition("-")[0] == word]
    start = program.at
    for name in words:
        if name in taps:
            program.at = start  # the same for each
            change(taps, name, program)


def _drop(taps: dict[str, Any], name: str, program: Program) -> None:
    if len(taps) > 1:
        del taps[name]


def _only(taps: dict[str, Any], name: str, program: Program) -> None:
    own_tap = {name: taps[name]}
    taps.clear()
    taps.update(own_tap)


_SETS = (
    ("l_out",), ("result_output", "embedding"), ("inp_embd", "l_out", "result_output"), ("Qcur", "Kcur", "Vcur"),
    ("attn_norm", "ffn_out"), ("act_q8", "act_scale"), ("kqv_out", "ffn_down", "ffn_norm"),
    ("acc_i32", "act_sum", "dot_i32"),
    ("norm", "norm_weight", "attn_sub_norm"),
)  # fmt: skip


def _is_of(name: str, words: tuple[str, ...]) -> bool:
    word = name.rpartition(".")[2].partition("-")[0]
    return any(part in word for part in words)


def _set_of(taps: dict[str, Any], name: str, program: Program) -> None:
    words = program.of(_SETS)
    for each in list(taps):
        if not _is_of(each, words) and len(taps) > 1:
            del taps[each]


def _without(taps: dict[str, Any], name: str, program: Program) -> None:
    words = program.of(_SETS)
    for each in list(taps):
        if _is_of(each, words) and len(taps) > 1:
            del taps[each]


def _rename(taps: dict[str, Any], name: str, program: Program) -> None:
    others = [*other_names(name), "theirs", "\x1b[2J", "norm-0", ""]
    taps[program.of(others)] = taps.pop(name)


def _every(function: Callable[[Any, Program], Any]) -> Change:
    def change(taps: dict[str, Any], name: str, program: Program) -> None:
        with np.errstate(all="ignore"):
            taps[name] = function(np.asarray(taps[name]), program)

    return change


def _floats(function: Callable[[Any, Program], Any]) -> Change:
    return _every(lambda value, program: function(value, program) if value.dtype.kind == "f" and value.size else value)


def _element(value: Any, program: Program) -> Any:
    made = value.copy()
    flat = made.reshape(-1)
    at = program.below(256) * max(1, flat.size // 256) % flat.size if flat.size else 0
    if flat.size and made.dtype.kind == "f":
        flat[at] = program.of((np.nan, np.inf, flat[at] + 1, flat[at] * 1.5, -flat[at], 1e30))
    elif flat.size and made.dtype.kind in "iu":
        flat[at] = program.of((flat[at] ^ 2, flat[at] ^ 1, 0, 127))
    return made


def _row(value: Any, program: Program) -> Any:
    made = value.copy()
    row = program.below(len(made)) if made.ndim else ...
    made[row] = program.of((made[row] * 2, made[row] * np.nan, made[row] + 1, made[row] * 0))
    return made


def _columns(value: Any, program: Program) -> Any:
    made = value.reshape(len(value), -1).copy() if value.ndim else value.reshape(1, 1).copy()
    width = made.shape[1]
    start = program.of((0, width // 2, max(0, width - 4), max(0, width // 2 - 2)))
    made[:, start : start + program.of((1, 3, 4, width))] += 1
    return made.reshape(value.shape)


def _order(value: Any, program: Program) -> Any:
    made = value.reshape(len(value), -1) if value.ndim else value.reshape(1, 1)
    rows, width = made.shape
    kind = program.below(6)
    if kind == 0:
        made = made[::-1]
    elif kind == 1:
        made = made[np.roll(np.arange(rows), 2)]
    elif kind == 2:
        made = np.roll(made, 1, axis=0)
    elif kind == 3 and width % 32 == 0:
        made = made.reshape(rows, -1, 2, 16).swapaxes(2, 3).reshape(rows, width)
    elif kind == 4:
        made = made[:, np.roll(np.arange(width), 3)]
    else:
        made = np.roll(made, -1, axis=0)
    return np.ascontiguousarray(made).reshape(value.shape)


def _shape(value: Any, program: Program) -> Any:
    kind = program.below(10)
    if kind == 0:
        return value.T
    if kind == 1:
        return value.reshape(-1)
    if kind == 2:
        return value[-1:]
    if kind == 3:
        return value[-2:]
    if kind == 4:
        return value.swapaxes(0, 1) if value.ndim > 1 else value
    if kind == 5 and value.ndim == 3:
        return np.concatenate([value, np.zeros((*value.shape[:2], 24), value.dtype)], axis=2)
    if kind == 6 and value.ndim == 3:
        return np.concatenate([value, np.zeros((*value.shape[:2], 24), value.dtype)], axis=2).T
    if kind == 7:
        return value.reshape(1, *value.shape)
    if kind == 8:
        return np.ascontiguousarray(value).reshape(value.shape[::-1])
    return value.reshape(-1)[:5]


def _kind(value: Any, program: Program) -> Any:
    kinds = ("<f2", "<f8", "<i8", "<i4", "u1", ">f4", "bfloat16", "<i2", "c8", "f4")
    kind = program.of(kinds)
    value = value.real
    if kind == "bfloat16":
        return (value.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")
    return value.astype(kind)


def _factors(value: Any, program: Program) -> Any:
    rows = len(value) if value.ndim else 1
    factors = np.linspace(0.5, 2, rows, dtype=np.float32).reshape(-1, *(1,) * max(0, value.ndim - 1))
    if program.below(2) and value.ndim > 1:
        return value * np.linspace(0.5, 2, value.shape[-1], dtype=np.float32)
    return (value * factors).astype(value.dtype) if value.ndim else value


def _noise(value: Any, program: Program) -> Any:
    chance = np.random.default_rng(program.below(256))
    share = program.of((1e-7, 1e-4, 1e-2, 0.5, 10.0, 1e-5, 2e-6, 0.2))
    rms = float(np.sqrt(np.mean(np.square(value, dtype=np.float64)))) if value.size else 0.0
    return (value + chance.standard_normal(value.shape) * share * rms).astype(value.dtype)


def _replaced(taps: dict[str, Any], name: str, program: Program) -> None:
    """The value of another tap; for example the input, if an operation is skipped."""
    names = list(taps)
    at = names.index(name)
    taps[name] = taps[names[max(0, at - 1 - program.below(4))]]


CHANGES: tuple[Change, ...] = (
    _drop, _only, _rename, _every(_element), _floats(_row), _floats(_columns), _floats(_order), _every(_shape),
    _every(_kind), _floats(_factors), _floats(_noise), _replaced,
    _floats(lambda value, program: (value * program.of((2, 0.5, -1, 3.7, 0, np.nan, 1e6))).astype(value.dtype)),
    _floats(lambda value, program: value + np.float32(program.of((1, 0.01, np.inf)))),
    _set_of, _without,
)  # fmt: skip
