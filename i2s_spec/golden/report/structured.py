"""This module is the report for programs: one JSON document, described by `compare.schema.json` of the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from i2s_spec.draw.text import json_document, json_string
from i2s_spec.golden.replay.code_flips import Flips
from i2s_spec.golden.replay.result import SCHEMA_VERSION, Comparison, Diagnosis, TapResult

#: What a document repeats of the record's header.
_HEADER: Final = ("profile", "weights", "architecture", "activation", "dialect", "token_ids")


def lines(result: Comparison) -> Iterator[str]:
    """The document."""
    header = result.header
    return json_document(
        {
            "schema_version": SCHEMA_VERSION,
            "ok": result.ok,
            "verdict": result.verdict,
            "mode": result.mode,
            "profile": result.profile,
            "golden": {
                "path": json_string(result.golden),
                **{key: header.get(key) for key in _HEADER},
            },
            "candidate": {"path": json_string(result.candidate), "form": result.form},
            "notes": list(result.notes),
            "summary": {status: result.counted(status) for status in
                        ("ok", "flips", "wrong", "behind", "missing", "extra", "shape", "skipped")},
            "first": None if result.first is None else json_string(result.first.name),
            "diagnoses": [_diagnosis(each) for each in result.diagnoses],
            "groups": [
                {"word": json_string(group.word), "taps": [json_string(name) for name in group.taps],
                 "layers": list(group.layers), "diagnosis": group.diagnosis.name if group.diagnosis is not None else None}
                for group in result.groups
            ],
            "whole": None if result.whole is None else {
                "name": result.whole.name, "verdict": result.whole.verdict, "relative_l2": result.whole.relative,
                "cosine": result.whole.cosine, "same_top": result.whole.same_top, "kl_divergence": result.whole.divergence,
            },
            "drift": [{"layer": layer, "relative_l2": far, "cosine": cosine} for layer, far, cosine in result.drift],
            "taps": [_tap(tap) for tap in result.taps],
        }
    )  # fmt: skip


def _tap(tap: TapResult) -> dict[str, Any]:
    m = tap.measures
    return {
        "name": json_string(tap.name),
        "status": tap.status,
        "layer": tap.layer,
        "op": tap.op or None,
        "candidate_name": None if tap.other is None else json_string(tap.other),
        "notes": list(tap.notes),
        "limit": tap.limit or None,
        "span": tap.span,
        "reach": [json_string(name) for name in tap.reach],
        "drift": tap.drift,
        "measures": None if m is None else {
            "relative_l2": m.relative, "cosine": m.cosine, "max_abs": m.largest, "index": list(m.at), "got": m.got,
            "want": m.want, "max_ulp": m.ulp, "over_limit": m.over, "not_finite": m.not_finite, "elements": m.elements,
        },
        "flips": _flips(tap.flips),
        "diagnoses": [_diagnosis(each) for each in tap.diagnoses],
    }  # fmt: skip


def _flips(flips: Flips | None) -> dict[str, Any] | None:
    if flips is None:
        return None
    found = flips._asdict()
    found["first"] = None if flips.first is None else list(flips.first)
    return found


def _diagnosis(each: Diagnosis) -> dict[str, Any]:
    return {
        "name": each.name,
        "fits": each.fits,
        "says": each.says,
        "remaining": each.remaining,
        "seen": each.seen or None,
    }
