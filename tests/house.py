"""The modules of the package for the tests of its structure: parsed once, by name."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "i2s_spec"

#: Source files of the extensions.
PYX = ROOT / "pyx"

MODULES = sorted(PACKAGE.rglob("*.py"))

#: Programs beside the package, which import it.
TOOLS = sorted(
    module
    for folder in ("bench", "fuzz", "spec/build", "training", "runs", "conformance", "contrib")
    for module in (ROOT / folder).rglob("*.py")
    if "node_modules" not in module.parts
)

TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(module): module for module in MODULES}


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@cache
def nodes_of(module: Path) -> list[ast.AST]:
    """All nodes of a module, each before the nodes inside it."""
    return list(ast.walk(tree_of(module)))


def forget_trees() -> None:
    """Free the parsed trees: the garbage collector would traverse them again and again."""
    tree_of.cache_clear()
    nodes_of.cache_clear()


def identifiers(module: Path) -> list[str]:
    """The names that a module defines: functions, classes, parameters and assigned variables."""
    found = []
    for node in nodes_of(module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.append(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            found.append(node.arg)
    return found
