"""The program that renders one chat template in Jinja's sandbox and ends; `chat.render` starts it.

It reads a request as JSON from stdin and writes a reply as JSON to stdout. The operating system enforces its limits on
processor time and memory, which are set before the template is parsed, so a template cannot evade them. It imports
nothing from this package, so that it can be started alone.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _bound(seconds: float, memory: int) -> None:
    """Limit processor time and memory, and forbid writing files."""
    try:
        import resource
    except ImportError:  # not Unix; the caller's timeout still ends it
        return
    whole = max(1, int(seconds + 0.999))
    limits = (
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 16),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, limit in limits:
        _, hard = resource.getrlimit(kind)
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (most, most))


def _render(request: dict[str, Any]) -> dict[str, str]:
    try:
        from datetime import datetime

        from jinja2.exceptions import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        return {"missing": str(error)}
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    def tojson(value: object, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    # The functions that Hugging Face gives to templates.
    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: datetime.now().strftime(form))
    environment.filters["tojson"] = tojson
    datetime.now()  # read the time zone while files can still be opened
    _bound(request["seconds"], request["memory"])
    parts: list[str] = []
    room = request["characters"]
    try:
        for part in environment.from_string(request["template"]).generate(**request["context"]):
            room -= len(part)
            if room < 0:
                return {"error": f"its output is longer than {request['characters']:,} characters"}
            parts.append(part)
    except MemoryError:
        return {"error": f"it took more than {request['memory'] >> 20} MB"}
    except RecursionError:
        return {"error": "it is nested too deeply"}
    except Exception as error:  # a template can raise any exception
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    return {"text": "".join(parts)}


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    sys.stdout.write(json.dumps(_render(request)))


if __name__ == "__main__":
    main()
