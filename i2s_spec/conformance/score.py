"""This module compares an answer with what a vector expects, and says in a sentence where the two first differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.conformance.run.cases import VectorCase
from i2s_spec.errors import counted, quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Ops whose answer is JSON.
JSON_OPS: Final = ("container", "tokenize", "verdict")
#: The element type of an answer, by op; bytes for ops that are not named.
DTYPES: Final = {"decode": "<i1", "dequant": "<f4", "activation": "<i1", "bitlinear": "<i4", "forward": "<f4"}


def dtype_of(case: VectorCase) -> str:
    """The NumPy type of the elements of an answer."""
    if case.op == "bitlinear" and (case.method in ("rtol", "ulp", "bits") or case.args.get("accumulate") == "float"):
        return "<f4"
    return DTYPES.get(case.op, "u1")


def expected_json(case: VectorCase) -> Any:
    """The value that a case expects where its answer is JSON, else None."""
    if case.op not in JSON_OPS and case.digest:
        return None
    if case.json is None and case.answer is not None and case.op in JSON_OPS:
        return json.loads(case.answer.read_bytes())
    return case.json


def expected_bytes(case: VectorCase) -> bytes | None:
    """The bytes that a case expects, if it has any; expected JSON in its canonical form."""
    if case.answer is not None:
        return case.answer.read_bytes()
    return canonical(case.json) if case.json is not None and not case.digest else None


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no blanks, in UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


def json_difference(want: Any, got: Any, path: str = "$") -> str:
    """Where two JSON values first differ, or an empty string.

    >>> json_difference({"a": [1, 2]}, {"a": [1, 3]})
    '$.a[1] is 3; expected 2'
    """
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        for key in sorted(want.keys() | got.keys()):
            place = f"{path}.{quote(str(key), limit=80, bare=True)}"
            if key not in got:
                return f"{place} is missing"
            if key not in want:
                return f"{place} should not be there"
            if found := json_difference(want[key], got[key], place):
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list):
        for i, (one, other) in enumerate(zip(want, got, strict=False)):
            if found := json_difference(one, other, f"{path}[{i}]"):
                return found
        return (
            "" if len(want) == len(got) else f"{path} has {counted(len(got), 'entry', 'entries')}; expected {len(want)}"
        )
    if type(want) is type(got) and want == got:
        return ""
    return f"{path} is {_shown(got)}; expected {_shown(want)}"


def fields_difference(case: VectorCase, fields: Mapping[str, Any]) -> str:
    """Where values that come with a digest differ; values that the answer leaves out do not count, except for
    activations."""
    if not isinstance(case.json, Mapping):
        return ""
    inner = fields.get("json")
    given = {**fields, **inner} if isinstance(inner, Mapping) else fields
    for key, value in case.json.items():
        if key not in given and case.op == "activation":
            return f"the answer lacks {key}"
        if key in given and (found := json_difference(value, given[key], key)):
            return found
    return ""


def centred(case: VectorCase, data: bytes) -> bytes:
    """Rows of logits less their means, so that log-probabilities, which differ from logits by one number per row, agree
    with them."""
    columns = int(case.compare.get("columns") or 0)
    values = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float64)
    if not columns or values.size % columns:
        return data
    rows = values.reshape(-1, columns)
    return bytes((rows - rows.mean(axis=1, keepdims=True)).astype("<f4").tobytes())


def difference(case: VectorCase, want: bytes, got: bytes) -> str:
    """Where an answer first differs by more than the class of comparison allows, or an empty string."""
    if got == want:
        return ""
    if case.op == "container" and (found := _json_texts_difference(want, got)):
        return found
    dtype = np.dtype(dtype_of(case))
    if len(got) != len(want):
        return f"the answer has {counted(len(got), 'byte')}; expected {len(want):,}"
    if dtype.itemsize > 1 and len(want) % dtype.itemsize:
        return _elements(case, np.frombuffer(want, "u1"), np.frombuffer(got, "u1"), None)
    expected, actual = np.frombuffer(want, dtype), np.frombuffer(got, dtype)
    if dtype.kind != "f" or case.method in ("bits", "exact"):
        return _elements(case, expected, actual, None)
    with np.errstate(all="ignore"):  # an answer may be any bytes
        if case.method in ("rank", "corr"):
            return _like(case, expected, actual)
        return _elements(case, expected, actual, _within(case, expected, actual))


def _json_texts_difference(want: bytes, got: bytes) -> str:
    """Where the contents of two JSON texts differ; empty where one is not JSON or the contents are equal."""
    try:
        return json_difference(json.loads(want), json.loads(got))
    except (ValueError, RecursionError):
        return ""


def _within(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> Any:
    """Which elements are close enough by `ulp` or `rtol`; NaN is close to NaN."""
    both_nan = np.isnan(want) & np.isnan(got)
    if case.method == "ulp":
        limit = int(case.compare.get("ulp", case.compare.get("n", 1)))
        return both_nan | (np.abs(_ordered(want) - _ordered(got)) <= limit)
    rtol, atol = float(case.compare.get("rtol", 1e-5)), float(case.compare.get("atol", 0.0))
    with np.errstate(all="ignore"):
        return both_nan | (want == got) | (np.abs(want - got) <= atol + rtol * np.abs(want))


def _ordered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Floats as integers in the same order; neighboring floats differ by one."""
    bits = values.view("<i4").astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _like(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> str:
    """Whether all values correlate, and the largest of the last `columns` is among the largest of the answer."""
    if not np.isfinite(got).all():
        return f"value {int(np.flatnonzero(~np.isfinite(got))[0]):,} is not finite"
    if case.method == "corr":
        least = float(case.compare.get("corr", 0.0))
        spread = min(float(np.ptp(want)), float(np.ptp(got)))
        found = float(np.corrcoef(want.astype(np.float64), got.astype(np.float64))[0, 1]) if spread else 0.0
        if found < least:
            return f"the values correlate with {found:.6f}; expected at least {least:g}"
    rank = int(case.compare.get("rank", 0 if case.method == "corr" else 1))
    columns = int(case.compare.get("columns") or want.size)
    largest = int(want[-columns:].argmax())
    top = np.argsort(-got[-columns:], kind="stable")[:rank].tolist()
    if rank and largest not in top:
        return f"the largest of the last {counted(columns, 'value')} is that of {top[0]}; expected {largest}"
    return ""


def _elements(case: VectorCase, want: NDArray[Any], got: NDArray[Any], near: Any) -> str:
    """The first element that differs, and how many do."""
    if near is None:
        near = (want.view(f"u{want.itemsize}") if want.itemsize > 1 else want) == (
            got.view(f"u{got.itemsize}") if got.itemsize > 1 else got
        )
        if want.dtype.kind == "f" and case.method != "exact":
            near |= np.isnan(want) & np.isnan(got)  # every NaN equals every other
    wrong = np.flatnonzero(~near)
    if not wrong.size:
        return ""
    k = int(wrong[0])
    count = f"{wrong.size:,} of {want.size:,} differ"
    return f"{_place(case, k, want.size)} is {_number(got[k])}; expected {_number(want[k])}; {count}"


def _place(case: VectorCase, k: int, count: int) -> str:
    shape = [int(n) for n in case.args.get("shape", ())]
    total = 1
    for n in shape:
        total *= n
    if case.op in ("decode", "dequant") and len(shape) > 1 and total == count:
        return f"row {k // shape[0]:,}, column {k % shape[0]:,}"
    return f"{'byte' if dtype_of(case) == 'u1' else 'element'} {k:,}"


def _number(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(int(value)) if value.dtype.kind == "i" else f"0x{int(value):02x}"
    return f"{float(value)!r} (0x{int(value.view('u4')):08x})"


def _shown(value: Any) -> str:
    return quote(json.dumps(value, ensure_ascii=True), limit=80, bare=True)
