"""This module defines the messages of the protocol `i2s-cp/1`: what a run sends, and what an answer may be.

Fields that are not listed are ignored by both sides. An answer of another form is an `AdapterFault` that names it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from i2s_spec.conformance.run.adapter_process import AdapterFault, AdapterProcess
from i2s_spec.conformance.run.cases import VectorCase
from i2s_spec.errors import quote

PROTOCOL: Final = "i2s-cp/1"
VERSION: Final = 1

#: Everything that an adapter can be asked for.
OPS: Final = (
    "container", "decode", "dequant", "quantize", "activation", "bitlinear", "forward", "tokenize", "verdict",
)  # fmt: skip

#: The phases in which a reader refuses a file, in the order in which readers reach them.
PHASES: Final = ("magic", "header", "metadata", "info", "extent", "payload", "semantics")

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


@dataclass(frozen=True)
class Implementation:
    """What an adapter says about its implementation; texts are limited in length and shown escaped."""

    name: str
    version: str = ""
    language: str = ""
    source: str = ""
    homepage: str = ""
    issues: str = ""
    ops: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    dialects: tuple[str, ...] | None = None
    most_bytes: int | None = None


@dataclass(frozen=True)
class Answer:
    """One answer. `kind` is `result`, `rejected`, `skipped` or `errored`.

    :param digest: SHA-256 in hexadecimal, :param data: the bytes, if they came inline
    :param json: an answer in JSON, :param verdict: of the op `verdict`
    :param fields: the whole message
    """

    kind: str
    digest: str = ""
    data: bytes | None = None
    json: Any = None
    verdict: str = ""
    phase: str = ""
    message: str = ""
    issue_url: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def start(process: AdapterProcess) -> Implementation:
    """Begin the conversation.

    :raises AdapterFault: where the answer is not that of an adapter of version 1
    """
    answer = process.ask({"cmd": "start", "version": VERSION})
    if answer.get("version") != VERSION:
        shown = quote(str(answer.get("version")), limit=40)
        raise AdapterFault("protocol", f"the answer to `start` has the version {shown}; this is version {VERSION}")
    about = answer.get("implementation")
    if not isinstance(about, dict) or not isinstance(about.get("name"), str) or not about["name"]:
        raise AdapterFault("protocol", 'the answer to `start` lacks "implementation": {"name": ...}')
    ops = answer.get("ops", about.get("ops"))
    if not _are_texts(ops) or not ops:
        raise AdapterFault("protocol", 'the answer to `start` lacks "ops": [...], what the adapter can be asked for')
    if not set(ops) & set(OPS):
        raise AdapterFault("protocol", f"no op in the answer to `start` is known; there are {', '.join(OPS)}")
    features, dialects = answer.get("features"), answer.get("dialects")
    for name, value in (("features", features), ("dialects", dialects)):
        if value is not None and not _are_texts(value):
            raise AdapterFault("protocol", f'"{name}" in the answer to `start` is not a list of texts')
    limits = answer.get("limits")
    most = limits.get("max_bytes") if isinstance(limits, dict) else None
    texts = {
        key: str(about.get(key) or "")[:200] for key in ("name", "version", "language", "source", "homepage", "issues")
    }
    return Implementation(
        **texts,
        ops=tuple(ops),
        features=tuple(features) if features is not None else None,
        dialects=tuple(dialects) if dialects is not None else None,
        most_bytes=most if isinstance(most, int) else None,
    )


def dialect(process: AdapterProcess, name: str) -> bool:
    """Whether the adapter reads a layout."""
    return process.ask({"cmd": "dialect", "dialect": name}).get("ok") is True


def run_case(process: AdapterProcess, seq: int, case: VectorCase, want: str, output: Path) -> Answer:
    """Ask for one case.

    :param want: `digest` or `bytes`, :param output: where the adapter writes bytes
    """
    message: dict[str, Any] = {
        "cmd": "run",
        "seq": seq,
        "case": case.id,
        "op": case.op,
        "input": {"path": str(case.path)},
    }
    if case.second is not None:
        message["second"] = {"path": str(case.second)}
    message |= {"args": case.args, "want": want, "output": {"path": str(output)}}
    answer = answer_of(process.ask(message), seq, want, output)
    return replace(
        answer, message=answer.message.replace(f"{case.path.parent}/", "")
    )  # a record does not contain folders of the machine


def answer_of(message: Mapping[str, Any], seq: int, want: str, output: Path) -> Answer:
    """The meaning of a line.

    :raises AdapterFault: for a line that is not a valid answer
    """
    if message.get("seq") != seq or isinstance(message.get("seq"), bool):
        shown = quote(str(message.get("seq")), limit=40)
        raise AdapterFault("protocol", f"the answer has the seq {shown}; {seq} was asked for")
    text = str(message.get("message") or "")[:400]
    phase = str(message.get("phase") or "")
    if message.get("skipped"):
        return Answer("skipped", message=text, issue_url=str(message.get("issue_url") or "")[:400], fields=message)
    if message.get("errored"):
        context = message.get("context")
        text = text or str(context.get("message") or "" if isinstance(context, dict) else context or "")[:400]
        return Answer("errored", message=text, fields=message)
    if phase and phase not in PHASES:
        raise AdapterFault(
            "protocol", f"the answer has the phase {quote(phase, limit=40)}; there are {', '.join(PHASES)}"
        )
    verdict = message.get("verdict")
    if verdict is not None and verdict not in ("valid", "invalid"):
        raise AdapterFault(
            "protocol", f"the answer has the verdict {quote(str(verdict), limit=40)}; it is valid or invalid"
        )
    if message.get("rejected") or verdict == "invalid":
        return Answer("rejected", verdict=verdict or "", phase=phase, message=text, fields=message)
    if verdict == "valid":
        return Answer("result", verdict=verdict, message=text, fields=message)
    if "json" in message:
        return Answer("result", json=message["json"], digest=_digest(message, False), fields=message)
    if "base64" in message:
        try:
            data = base64.b64decode(message["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise AdapterFault("protocol", '"base64" in the answer is not base64') from None
        return Answer("result", data=data, fields=message)
    if (want == "bytes" or message.get("output") is True) and output.is_file():  # for languages without SHA-256
        return Answer("result", data=output.read_bytes(), fields=message)
    if want == "bytes":
        raise AdapterFault("protocol", 'the answer to "want": "bytes" has no "base64", and no file is at "output"')
    if message.get("output") is True:
        raise AdapterFault("protocol", 'the answer says "output": true, and no file is there')
    return Answer("result", digest=_digest(message, True), fields=message)


def _digest(message: Mapping[str, Any], needed: bool) -> str:
    value = message.get("digest")
    if value is None and needed:
        forms = "digest, json, verdict, rejected, skipped, errored"
        raise AdapterFault("protocol", f"the answer says nothing: it needs one of {forms}")
    found = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if found is None and value is not None:
        raise AdapterFault(
            "protocol", f"{quote(str(value), limit=80)} is not a digest: sha256: and 64 hexadecimal digits"
        )
    return found[1].lower() if found is not None else ""


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and len(each) <= 100 for each in value)
