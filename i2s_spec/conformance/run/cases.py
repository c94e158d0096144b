"""This module reads a folder of vectors, as `i2s vectors export` writes it, and makes the cases that a run asks.

The folder is read-only for adapters, and every path in its manifest is checked: one that leads outside is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from i2s_spec.errors import SettingError, quote
from i2s_spec.gguf.regular_file import read_regular

#: Name of the list of vectors in their folder.
MANIFEST: Final = "manifest.json"
#: Largest manifest and largest file of a vector that are read, in bytes.
_LARGEST: Final = 256 << 20


@dataclass(frozen=True)
class VectorCase:
    """One vector: the question for an adapter, and what its answer is compared with.

    :param id: never reused, :param op: the operation, :param verdict: `valid`, `invalid`, `either` or `survive`
    :param phase: the phase by which a reader has to refuse it, if it has to
    :param compare: the class of comparison and its bounds: `{"class": "ulp", "ulp": 1}`
    :param args: type, shape (columns first), layout, rule
    :param path: the input, :param second: the second input of an op that has two
    :param digest: SHA-256 of the expected bytes in hexadecimal, :param answer: where these bytes are
    :param json: the expected answer where it is JSON
    """

    id: str
    op: str
    path: Path
    verdict: str = "valid"
    phase: str = ""
    clause: str = ""
    requirement: str = ""
    rule: str = ""
    comment: str = ""
    features: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    compare: dict[str, Any] = field(default_factory=lambda: {"class": "exact"})
    args: dict[str, Any] = field(default_factory=dict)
    second: Path | None = None
    digest: str = ""
    answer: Path | None = None
    json: Any = None

    @property
    def method(self) -> str:
        """The class of comparison."""
        return str(self.compare.get("class", "exact"))


@dataclass(frozen=True)
class CaseFolder:
    """A folder of vectors: its version and its cases, in the order of the manifest."""

    folder: Path
    version: str
    cases: tuple[VectorCase, ...]

    def chosen(self, only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[VectorCase, ...]:
        """The cases that match a pattern of `only`, if there is one, and none of `skip`.

        A pattern with `*` is compared with the id, the op, features and flags.
        """
        only, skip = tuple(only), tuple(skip)
        return tuple(
            case for case in self.cases if (not only or _matches(case, only)) and not (skip and _matches(case, skip))
        )


def _matches(case: VectorCase, patterns: tuple[str, ...]) -> bool:
    words = (case.id, case.op, *case.features, *case.flags)
    return any(fnmatchcase(word, pattern) for word in words for pattern in patterns)


def read_cases(folder: str | Path, check: bool = True) -> CaseFolder:
    """The vectors of a folder.

    :param check: whether the SHA-256 of each input is compared with the manifest's
    :raises SettingError: where the folder has no manifest or a damaged one, or where bytes do not match the manifest
    """
    root = Path(folder).resolve()
    try:
        manifest = json.loads(read_regular(root / MANIFEST, _LARGEST).decode("utf-8"))
        entries = manifest["vectors"]
        cases = tuple(_case(root, entry, check) for entry in entries)
        version = str(manifest["suite_version"])
    except FileNotFoundError as error:
        name = quote(str(error.filename), limit=4096, bare=True)
        raise SettingError(f"{name}: no such file; `i2s vectors export DIR` writes a folder of vectors") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SettingError(f"{MANIFEST} is damaged: {type(error).__name__}: {quote(str(error), bare=True)}") from None
    if len({case.id for case in cases}) != len(cases):
        raise SettingError(f"{MANIFEST} is damaged: an id occurs twice")
    return CaseFolder(root, version, cases)


def _case(root: Path, entry: dict[str, Any], check: bool) -> VectorCase:
    expected = entry.get("expected") or {}
    digest = str(expected.get("digest", "")).removeprefix("sha256:")
    second = entry.get("second") or {}
    return VectorCase(
        id=str(entry["id"]),
        op=str(entry["op"]),
        path=_file(root, entry["input"], check),
        verdict=str(entry.get("verdict", "valid")),
        phase=str(entry.get("phase") or ""),
        clause=str(entry.get("clause") or ""),
        requirement=str(entry.get("requirement") or ""),
        rule=str(entry.get("rule") or ""),
        comment=str(entry.get("comment") or ""),
        features=tuple(entry.get("features") or ()),
        flags=tuple(entry.get("flags") or ()),
        compare=dict(entry.get("compare") or {"class": "exact"}),
        args=dict(entry.get("args") or {}),
        second=_file(root, second, check) if second else None,
        digest=digest,
        answer=_inside(root, expected["path"]) if expected.get("path") else None,
        json=expected.get("json"),
    )


def _file(root: Path, entry: dict[str, Any], check: bool) -> Path:
    path = _inside(root, entry["path"])
    wanted = str(entry.get("sha256") or "").removeprefix("sha256:") if check else ""
    if wanted and sha256(read_regular(path, _LARGEST)).hexdigest() != wanted:
        raise ValueError(f"{entry['path']} has another SHA-256 than the manifest says")
    return path


def _inside(root: Path, name: str) -> Path:
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise ValueError(f"{name} leads out of the folder")
    return path
