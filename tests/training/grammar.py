"""This module expands templates: text with choices and slots, drawn by a seeded generator.

    [one|two|three]   one of these, each equally likely; choices may contain choices
    [maybe |]         something or nothing
    {name}            a slot, filled from a dictionary; its text may contain choices
    {Name}            the same with a capital letter, if the dictionary has no entry `Name`

Only `Random.random` is used, whose stream is the same in all versions of Python; the same seed gives the same text.

    >>> from random import Random
    >>> expand("[A|One] {animal} sat [down|still].", {"animal": "hen"}, Random(2))
    'One hen sat still.'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def pick(items: Sequence[Item], draw: Random) -> Item:
    """One of the items, each as likely as the others."""
    return items[int(draw.random() * len(items))]


def expand(template: str, slots: Mapping[str, str], draw: Random) -> str:
    """The template with its choices made and its slots filled.

    :raises KeyError: for a slot that the dictionary does not have
    """
    text, stop = _expand(template, 0, slots, draw, inside=False)
    if stop != len(template):
        raise ValueError(f"a bracket is closed that was not opened: {template[:stop]}")
    return text


def _expand(template: str, at: int, slots: Mapping[str, str], draw: Random, inside: bool) -> tuple[str, int]:
    """Text from `at` up to the end, or up to the `|` or `]` that ends a branch."""
    parts: list[str] = []
    while at < len(template):
        char = template[at]
        if inside and char in "|]":
            break
        if char == "[":
            text, at = _choice(template, at + 1, slots, draw)
            parts.append(text)
        elif char == "]":
            return "".join(parts), at
        elif char == "{":
            stop = template.index("}", at)
            parts.append(_slot(template[at + 1 : stop], slots, draw))
            at = stop + 1
        else:
            parts.append(char)
            at += 1
    return "".join(parts), at


def _choice(template: str, at: int, slots: Mapping[str, str], draw: Random) -> tuple[str, int]:
    """One branch of a choice that was opened before `at`, and where the choice ends."""
    starts, depth = [at], 1
    while depth:
        char = template[at]
        depth += (char == "[") - (char == "]")
        if char == "|" and depth == 1:
            starts.append(at + 1)
        at += 1
    text, _ = _expand(template, pick(starts, draw), slots, draw, inside=True)
    return text, at


def _slot(name: str, slots: Mapping[str, str], draw: Random) -> str:
    if name in slots:
        return expand(slots[name], slots, draw)
    text = expand(slots[name[0].lower() + name[1:]], slots, draw)
    return text[:1].upper() + text[1:]
