"""This module is run as a program: it applies the library `tokenizers` with a tokenizer.json to texts, and ends.

The regular expressions in the file are untrusted and may backtrack forever, so the operating system enforces limits of
time and memory. It reads a request as JSON from stdin and writes a reply as JSON to stdout; it imports nothing from
this package.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _bound(seconds: int, memory: int) -> None:
    try:
        import resource
    except ImportError:  # not Unix; the caller's timeout still ends it
        return
    for kind, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0)):
        _, hard = resource.getrlimit(kind)
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (most, most))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        return {"missing": str(error)}
    _bound(request["seconds"], request["memory"])
    try:
        tokenizer = Tokenizer.from_str(request["tokenizer"])
        if request["what"] == "cuts":
            pieces = [tokenizer.pre_tokenizer.pre_tokenize_str(text) for text in request["texts"]]
            return {"found": [[place for _, (place, _) in each] for each in pieces]}
        return {"found": [tokenizer.encode(text).ids for text in request["texts"]]}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # the library raises plain Exception for invalid files
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    sys.stdout.write(json.dumps(_answer(request)))


if __name__ == "__main__":
    main()
