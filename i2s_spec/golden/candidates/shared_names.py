"""This module finds values under the names that only runtimes have for them (10.4), in dumps of arrays.

Such a dump tells names and no operations. `NODE_NAMES` has what else a value is called. Where a name is that of another
value of ours, it is the other's if the dump has ours under another name of it, if only the other's shape fits, or if its
numbers are the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from i2s_spec.golden.candidates.node_names import runtime_names
from i2s_spec.golden.candidates.tap_names import parts


def named_by_runtimes(
    record: Iterable[str],
    op: Callable[[str], str],
    present: Iterable[str],
    found: Mapping[str, str],
    fits: Callable[[str, str], bool],
    is_other: Callable[[str, str], bool],
    same: Callable[[str, str], bool],
) -> dict[str, str]:
    """The matches of `found`, those under names of runtimes added, and moved where a name stands for another value.

    :param op: the operation of a value of the record
    :param present: names of the dump
    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    :param is_other: takes a name of both, and a value of ours that no name was found for: whether the dump's name stands
        for that one, by shapes and numbers
    :param same: whether two values of the dump are the same: then they are two names of one value
    """
    present = frozenset(present)
    all_found, taken = dict(found), set(found.values())

    def free(value: str) -> str | None:
        """A name that the dump has, that runtimes have for a value, and that nothing else was found for."""
        word, layer, number = parts(value)
        names = (f"{each}{layer}" for each in runtime_names(word, op(value)))
        return next(
            (each for each in names if not number and each in present and each not in taken and fits(value, each)), None
        )

    for value in record:
        if value in all_found:
            continue
        word, layer, number = parts(value)
        for name in () if number else (f"{each}{layer}" for each in runtime_names(word, op(value))):
            if all_found.get(name) != name or not fits(value, name):
                continue
            own = free(name)
            if not is_other(name, value) if own is None else same(name, own):
                continue
            del all_found[name]
            all_found[value] = name
            if own is not None:
                all_found[name] = own
                taken.add(own)
            break
        else:
            other = free(value)
            if other is not None:
                all_found[value] = other
                taken.add(other)
    return all_found
