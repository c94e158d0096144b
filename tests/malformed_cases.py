"""The broken copies of `i2s_spec.testing.malformed` by name. This module does not build their bytes."""

from __future__ import annotations

from i2s_spec.testing.malformed import Case, malformed

#: Every case, by its name.
CASES: dict[str, Case] = {case.name: case for case in malformed()}

#: Cases about models that are small nevertheless: a file of a few KiB with a wrong key or tensor.
_SMALL_MODELS = {"key_type_i32", "key_type_array", "no_token_embd", "embedding_narrow", "embedding_i2s", "one_token"}

#: The cases of less than 100,000 bytes, with a few larger ones; `test_broken_copies` checks that none is missing.
SMALL: dict[str, Case] = {
    name: case
    for name, case in CASES.items()
    if not case.large and (case.code[0] not in "MT" or case.code[:2] == "M2" or name in _SMALL_MODELS)
}


def broken(name: str) -> bytes:
    """The bytes of the case of this name."""
    return CASES[name].data
