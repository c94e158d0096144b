"""This module keeps a campaign on the disk: what was found, files that had a new answer, and how far it has come.

`state.json` is written as a whole or not at all; the same campaign goes on where it stopped. `findings/` has a file and a
page for each find, `corpus/` the files with new answers, named after what is in them. A folder that holds something
else, or the campaign of another command or seed, is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from i2s_spec.errors import quote
from i2s_spec.gguf.atomic_file import OutputFile

STATE: Final = "state.json"
FINDINGS: Final = "findings"
CORPUS: Final = "corpus"
STATE_VERSION: Final = 1


class Folder:
    """The folder of a campaign.

    :param path: made where it is missing
    :param identity: what makes two campaigns the same: command, seed, policy
    :raises ValueError: where the folder is not one of this campaign
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._identity = json.loads(json.dumps(identity))
        self.state: dict[str, Any] = {}
        shown = quote(str(self.path), limit=4096, bare=True)
        if self.path.exists() and (not self.path.is_dir() or (not self._state.exists() and any(self.path.iterdir()))):
            raise ValueError(f"{shown} is there already and holds no campaign; name another folder")
        if self._state.exists():
            try:
                self.state = json.loads(self._state.read_text(encoding="ascii"))
                retained = self.state["identity"] if self.state["state_version"] == STATE_VERSION else None
                self._check_shape()
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{shown}/{STATE} is not a state of a campaign; name another folder") from error
            if retained != self._identity:
                differ = (
                    ", ".join(k for k in self._identity if (retained or {}).get(k) != self._identity[k]) or "version"
                )
                raise ValueError(f"{shown} holds a campaign that differs in: {differ}; name another folder")
        for folder in (self.path, self.path / FINDINGS, self.path / CORPUS):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def _state(self) -> Path:
        return self.path / STATE

    def _check_shape(self) -> None:
        """Only names that we give ourselves are believed: a state is never a way to read another file."""
        for name in (*self.state["learned"], *(found["file"] for found in self.state["findings"])):
            if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError("a name in the state is no name of a file")

    def learned(self) -> list[bytes]:
        """The files with new answers, in the order in which they came."""
        return [(self.path / CORPUS / name).read_bytes() for name in self.state.get("learned", ())]

    def learn(self, data: bytes) -> str:
        """Keep a file with a new answer; its name."""
        name = f"{sha256(data).hexdigest()[:16]}.gguf"
        _put(self.path / CORPUS / name, data)
        return name

    def find(self, name: str, data: bytes, about: Mapping[str, Any]) -> None:
        """Keep a find: its file and what is known of it."""
        _put(self.path / FINDINGS / name, data)
        page = json.dumps(about, indent=2, ensure_ascii=True).encode()
        _put(self.path / FINDINGS / f"{name.removesuffix('.gguf')}.json", page + b"\n")

    def save(self, state: Mapping[str, Any]) -> None:
        """Note how far the campaign has come."""
        self.state = {"state_version": STATE_VERSION, "identity": self._identity, **state}
        _put(self._state, json.dumps(self.state, indent=1, ensure_ascii=True).encode() + b"\n")


def _put(path: Path, data: bytes) -> None:
    with OutputFile(path, force=True) as output:
        output.write(data)
