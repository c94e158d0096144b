"""The program that renders a chat template with one engine and ends; `chat.ask_engine` starts it.

It reads a request as JSON from stdin and writes a reply as a line of JSON for each conversation. The operating system
enforces its limits on processor time and memory, which are set before the template is parsed, so a template cannot evade
them. It imports nothing from this package, so that it can be started alone.

The engines are `jinja`, set up as transformers sets it up (5.24, utils/chat_template_utils.py), and `llama.cpp`, by the
package xllamacpp: its server, whose route /apply-template renders and whose /tokenize splits as for a completion.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

#: Methods that change a list or an object, which transformers' sandbox does not allow and llama.cpp does: no attack.
_CHANGING = r"'(append|clear|extend|insert|pop|popitem|remove|reverse|setdefault|sort|update)'"
#: Most bytes of an answer of the server.
_MOST_REPLY = 1 << 22


def _bound(seconds: float, memory: int, files: int = 16, written: int = 0) -> None:
    """Limit processor time and memory, open files, and the bytes written to a file."""
    try:
        import resource
    except ImportError:  # not Unix; the caller's timeout still ends it
        return
    whole = max(1, int(seconds + 0.999))
    limits = (
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, written),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, limit in limits:
        _, hard = resource.getrlimit(kind)
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (most, most))


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the replies: a `text` or an `error` for each conversation, or one for all: `missing`, without the
    engine's package; `refused`, where the engine does not take the template; `unusable`, where it does not take the
    vocabulary.
    """
    yield from _ENGINES[request["engine"]](request)


def _jinja(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        environment = _environment()
    except ImportError as error:
        yield {"missing": str(error)}
        return
    _bound(request["seconds"], request["memory"])
    compiled: dict[int, Any] = {}

    def pieces(number: int, context: dict[str, Any]) -> Iterator[str]:
        if number not in compiled:
            compiled[number] = environment.from_string(request["templates"][number])
        yield from compiled[number].generate(**context)

    for number, context in request["contexts"]:
        yield _rendered(partial(pieces, number, context), request)


def _environment() -> Any:
    """Return Jinja's sandbox with the functions that transformers gives to templates."""
    from datetime import datetime

    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """The block `generation`, which marks what the model has written; it renders its content."""

        tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

        @staticmethod
        def _content(caller: Callable[[], str]) -> str:
            return caller()

    class Names(Namespace):
        """A namespace without names that begin with an underscore."""

        def __init__(*arguments: Any, **named: Any) -> None:
            self, *rest = arguments
            for name in (found := dict(*rest, **named)):
                _check(name)
            Namespace.__init__(self, found)

        def __setitem__(self, name: str, value: Any) -> None:
            _check(name)
            super().__setitem__(name, value)

    def _check(name: object) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise TemplateError(f"a namespace cannot hold {name!r}")

    class Dicts:
        """The function `dict`, without the attributes of the class."""

        def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
            return dict(*arguments, **named)

        def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
            return dict.fromkeys(*arguments)

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    def tojson(
        value: object, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.globals.update(
        raise_exception=refuse, strftime_now=lambda form: datetime.now().strftime(form), namespace=Names, dict=Dicts()
    )  # fmt: skip
    environment.filters["tojson"] = tojson
    datetime.now()  # read the time zone while files can still be opened
    return environment


def _rendered(pieces: Callable[[], Iterator[str]], request: dict[str, Any]) -> dict[str, Any]:
    """Return the text, or the error; `stopped` if the sandbox or a limit ended it."""
    parts: list[str] = []
    room = request["characters"]
    try:
        for part in pieces():
            room -= len(part)
            if room < 0:
                return {"error": f"its output is longer than {request['characters']:,} characters", "stopped": True}
            parts.append(part)
    except MemoryError:
        return {"error": f"it took more than {request['memory'] >> 20} MB", "stopped": True}
    except RecursionError:
        return {"error": "it is nested too deeply", "stopped": True}
    except Exception as error:  # a template can raise any exception
        words = f"{type(error).__name__}: {error}"[:500]
        unsafe = words.startswith("SecurityError") and not re.search(_CHANGING, words)
        return {"error": words, "stopped": unsafe or isinstance(error, OverflowError)}
    return {"text": "".join(parts)}


def _llama_cpp(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        import xllamacpp
    except ImportError as error:
        yield {"missing": str(error)}
        return
    from secrets import token_hex

    _bound(request["seconds"], request["memory"], 256, 1 << 20)
    log = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the process
    os.dup2(log.fileno(), 2)
    secret = token_hex()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = request["model"]
    parameters.api_keys = [secret]  # other programs of this machine get no answer
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.n_threads_http = 64, 1, 0, 2
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = parameters.ui = parameters.prefill_assistant = False
    parameters.use_jinja, parameters.verbosity = True, 1
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:
        yield _from_log(log.fileno()) or {"unusable": f"{error}"[:500]}
        return
    post = partial(_post, server.listening_address, secret)
    for body in request["bodies"]:
        status, reply = post("/apply-template", body)
        if status != 200:
            reason = reply.get("error")
            yield {"error": str(reason.get("message") if isinstance(reason, dict) else reply)[:500]}
            continue
        text = str(reply["prompt"])
        if len(text) > request["characters"]:
            yield {"error": f"its output is longer than {request['characters']:,} characters"}
            continue
        _, split = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})
        yield {"text": text, "tokens": split.get("tokens")}


def _from_log(log: int) -> dict[str, str] | None:
    """Return why the server did not start; its error message does not tell.

    A thread of llama.cpp writes the log, possibly after the server has refused: the line is waited for.
    """
    until = time.monotonic() + 3
    while True:
        printed = os.pread(log, 1 << 20, 0).decode("utf-8", "replace")  # the writer's position stays
        for kind, before in (("refused", "chat template parsing error: "), ("unusable", "error loading model: ")):
            _, found, reason = printed.partition(before)
            if found and "\n" in reason:
                return {kind: re.split(r"\n[\d.]+ [A-Z] ", reason, maxsplit=1)[0].strip()[:500]}
        if time.monotonic() > until:
            return None
        time.sleep(0.02)


def _post(address: str, secret: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
    """Ask the server; return the status and the answer. An answer that is none is an error of status 0."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(address.rpartition("/")[2], timeout=60)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        found = json.loads(answer.read(_MOST_REPLY))
    except (OSError, HTTPException, ValueError) as error:
        return 0, {"error": {"message": f"{type(error).__name__}: {error}"}}
    finally:
        connection.close()
    return answer.status, found if isinstance(found, dict) else {}


_ENGINES: dict[str, Callable[[dict[str, Any]], Iterator[dict[str, Any]]]] = {
    "jinja": _jinja,
    "llama.cpp": _llama_cpp,
}


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    for answer in answers(request):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)  # llama.cpp's server may deadlock if it ends right after its start


if __name__ == "__main__":
    main()
