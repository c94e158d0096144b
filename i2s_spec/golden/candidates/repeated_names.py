"""This module says which values those of one name are, in dumps of arrays, which tell names and no operations (10.4).

Runtimes give a projection, its view by heads and its rotation the same name. A view has no values of its own: a dump may
have it, or leave it out, and so may a record.

>>> in_order(["Qcur-0", "Qcur-0#1", "Qcur-0#2"], ["Qcur-0", "Qcur-0#1"], lambda name: name == "Qcur-0#1", lambda *_: False)
{'Qcur-0': 'Qcur-0', 'Qcur-0#2': 'Qcur-0#1'}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from i2s_spec.golden.candidates.tap_names import parts


def by_name(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that are the same but for their number, in order."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("#")[0], []).append(name)
    return found


def repeated(
    record: Iterable[str], dump: Iterable[str], is_view: Callable[[str], bool], same: Callable[[str, str], bool]
) -> dict[str, dict[str, str]]:
    """For each name that a dump has several times, and not as often as the record: which of its values are which.

    :param is_view: whether a value of the record is another view of the one before it
    :param same: whether two values of the dump are the same, whatever their shapes
    """
    theirs = by_name(dump)
    found = {}
    for first, ours in by_name(record).items():
        given = theirs.get(first, [])
        if len(given) > 1 and len(given) != len(ours) and parts(first)[0] != "norm":
            found[first] = in_order(ours, given, is_view, same)
    return found


def in_order(
    ours: Sequence[str], given: Sequence[str], is_view: Callable[[str], bool], same: Callable[[str, str], bool]
) -> dict[str, str]:
    """For each value of a record, that of a dump, views left out on both sides; nothing where their numbers differ then."""
    plain = [name for name in ours if not is_view(name)]
    if len(given) > len(plain):
        given = [name for i, name in enumerate(given) if not i or not same(given[i - 1], name)]
    return dict(zip(plain, given, strict=True)) if len(given) == len(plain) else {}
