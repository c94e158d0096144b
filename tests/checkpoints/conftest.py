"""The library `tokenizers` and the worker that renders chat templates run in this process: separate processes would take
longer than the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from i2s_spec.checkpoints import receipt_checks, token_files, tokenizers_worker
from i2s_spec.model.text import chat, chat_template_worker


@pytest.fixture(autouse=True)
def library_in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the test uses `own_process`, because it is about the separate process."""
    if "own_process" in request.fixturenames:
        return
    monkeypatch.setattr(tokenizers_worker, "_bound", lambda *_: None)
    monkeypatch.setattr(chat_template_worker, "_bound", lambda *_: None)

    class InThisProcess(subprocess.CompletedProcess[bytes]):
        @classmethod
        def run(cls, command: list[str], input: bytes, **_: Any) -> InThisProcess:
            replies = map(json.dumps, chat_template_worker.answers(json.loads(input)))
            return cls(command, 0, "".join(f"{reply}\n" for reply in replies).encode(), b"")

    monkeypatch.setattr(chat, "run_worker", InThisProcess.run)

    def ask(tokenizer: Mapping[str, Any], what: str, texts: Sequence[str]) -> list[list[int]]:
        asked = {
            "tokenizer": json.dumps(tokenizer),
            "what": what,
            "texts": list(texts),
            "seconds": 1,
            "memory": 1,
            "path": sys.path,
        }
        reply = tokenizers_worker._answer(asked)
        if "error" in reply:
            raise token_files.CannotTellError(reply["error"])
        return reply["found"]

    monkeypatch.setattr(token_files, "ask_library", ask)
    monkeypatch.setattr(receipt_checks, "ask_library", ask)


@pytest.fixture
def own_process() -> None:
    """The library is asked in a process of its own, as users have it."""
