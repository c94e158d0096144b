"""Edits of key-values that a user asks for: set, rename, delete; each as an `Action`, as repairs are.

`settings` reads what was typed. A value is text in the type that the key has in the file; of a new key in the type that
its declaration gives it, else in the one that it looks like. Arrays are JSON. `asked_actions` gives the edits of one file.

    >>> settings(["general.name=A: B", "x.count=3:u64"])
    [Setting(key='general.name', text='A: B', type=None), Setting(key='x.count', text='3', type='u64')]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from i2s_spec.convert.rewrite import Edit
from i2s_spec.errors import FormatError, Span, quote
from i2s_spec.gguf.encode import checked_key, completed, full_label
from i2s_spec.gguf.reader import File, KeyValue
from i2s_spec.gguf.split_set import TYPES
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.repair.plan import Action, DataPlacement
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.schema import faults, limits
from i2s_spec.schema.rotation import PREFIX as ROTATION
from i2s_spec.schema.types import VALUE_LABELS, ValueType

_ALIGNMENT: Final = "general.alignment"
_LABEL: Final = "|".join(label for label in VALUE_LABELS if label != "arr")
_TYPE: Final = re.compile(rf"(?:arr|(?:arr\[)*(?:{_LABEL})\]*)")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


class Setting(NamedTuple):
    """A key and the text of its value; `type` is the label of a type that was named, such as `u32` or `arr[str]`."""

    key: str
    text: str
    type: str | None = None


class KeyEdits(NamedTuple):
    """What a user asks for: values to set, (old, new) names of keys, and keys to delete."""

    settings: Sequence[Setting] = ()
    names: Sequence[tuple[str, str]] = ()
    deleted: Sequence[str] = ()


class EditedKey(NamedTuple):
    """What was done to one key, in a sentence; `at` is its place in the original, empty for a new one."""

    key: str
    at: Span
    does: str


def settings(words: Iterable[str]) -> list[Setting]:
    """Parse `KEY=VALUE[:TYPE]`; a value that ends like a type is followed by its own, as in `x:u8:str`.

    :raises ValueError: for a word without `=` or without a key
    """
    found = []
    for word in words:
        key, value = pair(word)
        text, colon, label = value.rpartition(":")
        typed = bool(colon) and _TYPE.fullmatch(label) is not None and label.count("[") == label.count("]")
        found.append(Setting(key, text, label) if typed else Setting(key, value))
    return found


def pair(word: str) -> tuple[str, str]:
    """Split a word at its first `=`.

    :raises ValueError: for a word without one, and with nothing before it
    """
    key, sign, value = word.partition("=")
    if not sign or not key:
        raise ValueError(f"{quote(word)} has no {'key before its =' if sign else '= after the key'}")
    return key, value


def asked_actions(workspace: Workspace, edits: KeyEdits, force: bool = False) -> list[Action]:
    """Return the edits of a file, each with the `code` empty and its key in `does`, for `plan.taken_together`.

    :param force: also of keys that say what tensors mean
    :raises FormatError: for a header that cannot be read to its end
    :raises KeyError: for a key to rename or delete that the file does not have
    :raises ValueError, TypeError: for a value that its type cannot hold, a key that is asked for or would occur twice, and
        a key that says what tensors mean, without `force`
    """
    file = workspace.file
    if file.fault is not None:
        raise file.fault
    asked = _Asked(workspace, edits)
    if not force:
        for name in asked.touched:
            if (why := guarded(workspace, name)) is not None:
                raise ValueError(f"key {quote(name)} is protected: {why}; --force changes it all the same")
    return list(asked.actions())


def guarded(workspace: Workspace, name: str) -> str | None:
    """Say why the tensors would mean something else if the value of a key were another, by its declaration; None for
    others."""
    if name.encode("utf-8", "surrogateescape") in TYPES:
        return "it says which part of a model this is; i2s convert makes and joins parts"
    if name.startswith(ROTATION):
        return "it says how weights are rotated"
    key = architecture_view(workspace.subject).keys.declared.get(name)
    if key is None:
        return None
    if key.name == "general.architecture":
        return "it says which graph the tensors belong to; i2s convert --arch renames it with its keys"
    if "container" in key.readers:
        return "it says where tensors lie"
    if "loader" in key.readers and "graph" in key.readers:
        return "loaders derive the tensors and their shapes from it"
    if "tokenizer" in key.readers and (key.types[0].startswith("arr[") or key.name.endswith((".model", ".pre"))):
        return "it says which token each row of the embedding is"
    return None


class _Asked:
    """The edits as they concern one file."""

    def __init__(self, workspace: Workspace, edits: KeyEdits) -> None:
        self._workspace, self._edits = workspace, edits
        self._file: File = workspace.file
        renamed, names = dict(edits.names), [key for key, *_ in edits.settings]
        gone = [*(old for old, _ in edits.names), *edits.deleted]
        #: The keys that are changed, removed or added, as they are called before and after.
        self.touched = list(dict.fromkeys((*names, *gone, *renamed.values())))
        if len({*names, *gone}) < len(names) + len(gone):
            raise ValueError(f"key {quote(_twice((*names, *gone)))} is asked for twice")
        for name in gone:
            self._entry(name)
        left = {entry.key for entry in self._file.metadata.rows} - set(gone)
        for name in renamed.values():
            checked_key(name)
            if name in left or name in names:
                raise ValueError(f"key {quote(name)} would occur twice")
            left.add(name)

    def _entry(self, name: str) -> KeyValue:
        file = self._file
        if name not in file.metadata:
            raise KeyError(f"the file has no key {quote(name)}")
        if sum(1 for _ in file.index.keys_named({name.encode("utf-8", "surrogateescape")})) > 1:
            raise ValueError(f"key {quote(name)} occurs twice in the file; i2s fix --unsafe keeps the first")
        return file.metadata.entry(name)

    def actions(self) -> Iterator[Action]:
        workspace = self._workspace
        alignment: Any = None
        for setting in self._edits.settings:
            if setting.key in self._file.metadata:
                entry = self._entry(setting.key)
                value, edit = self._value(setting, self._label(entry), partial(workspace.with_value, entry))
                yield self._action(entry.span, edit, setting.key)
            else:
                checked_key(setting.key)
                value, edit = self._value(setting, self._declared(setting.key), partial(workspace.new_key, setting.key))
                yield self._action(edit.span, edit, setting.key)
            if setting.key == _ALIGNMENT:
                alignment = self._aligned(setting.type or "u32", value)
        for old, new in self._edits.names:
            entry = self._entry(old)
            yield self._action(entry.span, workspace.with_key(entry, new), old)
        for name in self._edits.deleted:
            entry = self._entry(name)
            yield self._action(entry.span, workspace.without_key(entry), name)
        if alignment is None and _ALIGNMENT in self.touched:
            alignment = self._aligned("u32", limits.DEFAULT_ALIGNMENT)
        if alignment is not None and self._file.data_start is not None and self._file.index.tensors:
            place = DataPlacement(self._file.data_start, alignment)
            yield Action("", Span(0, 0), _ALIGNMENT, (), safe=False, layout=place)

    @staticmethod
    def _action(at: Span, edit: Edit, name: str) -> Action:
        return Action("", at, name, (edit,), safe=False)

    def _aligned(self, kind: str, value: Any) -> int:
        """Return the alignment to come.

        :raises ValueError: for one that no file has, and where tensors lie at other places
        """
        try:
            faults.alignment(ValueType.UINT32 if kind == "u32" else ValueType.STRING, value, Span(0, 0, ""))
        except FormatError as error:
            raise ValueError(error.message) from None
        index = self._file.index
        if value % 8 or any(index.tensor(i).offset % value for i in range(index.tensors)):
            raise ValueError(f"the tensors do not lie at multiples of {value} bytes; no key changes where they lie")
        return int(value)

    def _value(self, setting: Setting, present: str | None, edit: Callable[[Any, str], Edit]) -> tuple[Any, Edit]:
        """Return the value, and the edit that gives it to the key.

        :param present: the type that the key has, or is declared with
        """
        label = setting.type or present
        try:
            value = _guessed(setting.text) if label is None else _parsed(setting.text, label)
            return value, edit(value, full_label(completed(label, None, value)))
        except (TypeError, ValueError) as error:
            of = "" if label is None else f" of type {label}"
            raise ValueError(f"key {quote(setting.key)}{of}: {error}") from None

    def _declared(self, name: str) -> str | None:
        """Return the type that a key is declared with."""
        declared = architecture_view(self._workspace.subject).keys.declared.get(name)
        split = TYPES.get(name.encode("utf-8", "surrogateescape"))
        return declared.types[0] if declared is not None else split.label if split is not None else None

    def _label(self, entry: KeyValue) -> str:
        """Return the type of a value in full, where it is an array of arrays."""
        if entry.element != ValueType.ARRAY or entry.type != ValueType.ARRAY:
            return str(entry.label)
        try:
            return full_label(completed(None, None, self._file.metadata.decode(entry)))
        except (TypeError, ValueError):  # it is empty, or holds arrays of several types
            return "arr"


def _twice(names: Sequence[str]) -> str:
    return next(name for i, name in enumerate(names) if name in names[:i])


def _parsed(text: str, label: str) -> Any:
    """Parse text as a value of a type.

    :raises ValueError: for text that is no such value
    """
    if label == "str":
        _checked_text(text)
        return text
    if label.startswith("arr"):
        return _json_array(text)
    if label == "bool":
        if text.lower() not in _TRUTH:
            raise ValueError(f"{quote(text)} is neither true nor false")
        return _TRUTH[text.lower()]
    form = _NUMBER if label in ("f32", "f64") else _WHOLE
    if not form.fullmatch(text):
        raise ValueError(f"{quote(text)} is no {'number' if form is _NUMBER else 'whole number'}")
    return float(text) if form is _NUMBER else int(text)


def _guessed(text: str) -> Any:
    """Parse text as a value of the type that it looks like: a truth value, a number, an array, else text."""
    if text in ("true", "false"):
        return _TRUTH[text]
    for form, kind in ((_WHOLE, int), (_NUMBER, float)):
        if form.fullmatch(text):
            return kind(text)
    if text.startswith("["):
        return _json_array(text)
    _checked_text(text)
    return text


def _json_array(text: str) -> list[Any]:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (RecursionError, json.JSONDecodeError) as error:
        at = f": {error.msg} at character {error.pos + 1:,}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"it takes a JSON array, and this is another text{at}") from None
    if not isinstance(value, list):
        raise ValueError("it takes a JSON array, and this is another text")
    return value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _checked_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the text is not UTF-8") from None


def changes_of(before: File, after: File, actions: Sequence[Action], edits: KeyEdits) -> list[EditedKey]:
    """Return what was done, key by key, in words: the value before and after, and a type that is another one now."""
    from i2s_spec.inspect.show import key_row
    from i2s_spec.inspect.show_text import value_words

    def words(file: File, name: str) -> tuple[str, str]:
        i = file.index.key_places[name]
        return value_words(key_row(file, i)), str(file.index.key(i).label)

    renamed, deleted = dict(edits.names), set(edits.deleted)
    found = []
    for action in actions:
        name = action.does
        if not action.edits:
            continue
        if name in renamed:
            does = f"is called {quote(renamed[name])}"
        elif name in deleted:
            old, kind = words(before, name)
            does = f"is removed; it was {kind} {old}"
        elif name not in before.metadata:
            does = "is added: {1} {0}".format(*words(after, name))
        else:
            (old, was), (new, kind) = words(before, name), words(after, name)
            same = action.edits[0].new == before.source.read(
                action.edits[0].span.start, action.edits[0].span.stop - action.edits[0].span.start
            )
            does = f"has the value {old} already" if same else f"was {old} and is {new}"
            does += f"; its type was {was} and is {kind}" if was != kind else f", of type {kind}"
        found.append(EditedKey(name, action.at, f"key {quote(name)} {does}"))
    return found
