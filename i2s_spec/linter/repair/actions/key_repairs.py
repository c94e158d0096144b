"""This module repairs key-values: names that no loader looks up, duplicates, and values of an unexpected type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from i2s_spec.errors import quote
from i2s_spec.gguf.reader import KeyValue
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Finding, Fix


def _without(workspace: Workspace, finding: Finding, entry: KeyValue, why: str) -> Action:
    does = f"key {quote(entry.name)} is removed: {why}"
    return Action(finding.code, finding.span, does, (workspace.without_key(entry),), safe=False)


@repair("G202", Fix.UNSAFE, "key-values without a name are removed")
def drop_nameless(workspace: Workspace) -> Iterator[Outcome]:
    """No loader can look them up (clause 2.4)."""
    for finding in workspace.findings("G202"):
        yield _without(workspace, finding, workspace.entry(finding), "nothing can look it up")


@repair("G203", Fix.UNSAFE, "the first value of a key is kept")
def keep_first_value(workspace: Workspace) -> Iterator[Outcome]:
    """The loaders of the BitNet lineage take the first (clause 2.4)."""
    twice = {workspace.entry(finding).name: finding for finding in workspace.findings("G203")}
    met: set[bytes] = set()
    for i, name in workspace.subject.key_names() if twice else ():
        if name in twice and name in met:
            yield _without(
                workspace, twice[name], workspace.file.metadata.by_index(i), "the first one of that name is kept"
            )
        met.add(name)


@repair("G205", Fix.UNSAFE, "keys that are not ASCII are removed")
def drop_look_alikes(workspace: Workspace) -> Iterator[Outcome]:
    """No loader asks for such a key; the key that it imitates is not guessed (clause 2.4)."""
    for finding in workspace.findings("G205"):
        yield _without(workspace, finding, workspace.entry(finding), "no loader asks for a key that is not ASCII")


@repair("G206", Fix.UNSAFE, "keys with control characters are removed")
def drop_controls(workspace: Workspace) -> Iterator[Outcome]:
    """No loader asks for such a key; C code that stops at a NUL may take it for another (clause 2.4)."""
    for finding in workspace.findings("G206"):
        yield _without(workspace, finding, workspace.entry(finding), "no loader asks for a key with control characters")


@repair("G221", Fix.UNSAFE, "keys that are not UTF-8 are removed")
def drop_garbled(workspace: Workspace) -> Iterator[Outcome]:
    """No loader asks for such a key (clause 2.4)."""
    for finding in workspace.findings("G221"):
        yield _without(workspace, finding, workspace.entry(finding), "no loader asks for a key that is not UTF-8")


@repair("G208", Fix.UNSAFE, "of keys that differ only in case or blanks, the plain one is kept")
def keep_plain_key(workspace: Workspace) -> Iterator[Outcome]:
    """The specification's keys are lower-case and have no blanks (clause 2.4); if no key is like that, the first is
    kept."""
    findings = list(workspace.findings("G208"))
    places = dict(reversed([(name, i) for i, name in workspace.subject.key_names()])) if findings else {}
    for finding in findings:
        later = workspace.entry(finding)
        other = workspace.file.metadata.by_index(places[finding.want])
        entry = other if later.name == later.name.strip().lower() and later.name.isascii() else later
        yield _without(workspace, finding, entry, "another key reads like it")


@repair("M003", Fix.UNSAFE, "values get the type that loaders ask for, if they fit")
def wanted_type(workspace: Workspace) -> Iterator[Outcome]:
    """The value stays the same number; one that the type cannot hold is left as it is (clause 3.1)."""
    yield from _retyped(workspace, "M003")


@repair("G232", Fix.UNSAFE, "keys about splitting get the type that loaders ask for")
def wanted_split_type(workspace: Workspace) -> Iterator[Outcome]:
    """The value stays the same number (clause 2.8)."""
    yield from _retyped(workspace, "G232")


def _retyped(workspace: Workspace, code: str) -> Iterator[Outcome]:
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


def fitted(value: Any, label: str) -> Any:
    """A value as one of another type, the same number.

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
