"""This module writes the index of the rules: the module of each, and what the choice of rules asks about it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from i2s_spec.linter import rules
from i2s_spec.linter.rule import REGISTRY, facts_of

_MARK: Final = '''\
"""Each rule by its module: code, slug, severity, what it needs, and whether it is about payloads, is late, names
a weakness, has a function of its own and is about every file. Written by i2s_spec.docs.annexes.rule_index: run
`i2s spec write`."""

from typing import Final

# fmt: off
INDEX: Final[tuple[tuple[str, tuple[tuple[str, str, str, str, bool, bool, bool, bool, bool], ...]], ...]] = (
'''


def text() -> str:
    """The module `linter/rules/index.py`, of what all modules beside it declare."""
    folder = Path(rules.__file__).parent
    package = rules.__name__
    homes = [
        ".".join(path.relative_to(folder).with_suffix("").parts) for path in sorted(folder.glob("[a-z]*/[a-z]*.py"))
    ]
    lines = []
    for home in homes:
        import_module(f"{package}.{home}")
        here = [code for code, place in REGISTRY.places.items() if place == f"{package}.{home}"]
        lines.append(f'    ("{home}", (\n')
        for code in here:
            code, slug, severity, needs, *flags = facts_of(REGISTRY[code])  # noqa: PLW2901
            yes_or_no = ", ".join(map(str, flags))
            lines.append(f'        ("{code}", "{slug}", "{severity.value}", "{needs.name}", {yes_or_no}),\n')
        lines.append("    )),\n")
    return f"{_MARK}{''.join(lines)})\n"
