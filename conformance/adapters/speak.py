"""Code shared by adapters in Python: the loop that answers requests of the protocol i2s-cp/1."""

import hashlib
import json
import sys
from pathlib import Path


class RejectedError(Exception):
    """What an adapter refuses, where it knows in which phase: phase, message."""


def speak(about, ops, answer, features=None):
    """Answer until the input ends.

    :param about: name, version, language, source
    :param answer: gives bytes, a dict of the protocol, or an exception for what it rejects, for `op, path, args`
    """
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not come between answers
    for line in sys.stdin:
        message = json.loads(line)
        if message["cmd"] == "stop":
            break
        if message["cmd"] == "start":
            reply = {"version": 1, "implementation": about, "ops": ops, "features": features}
            reply = {key: value for key, value in reply.items() if value is not None}
        elif message["cmd"] == "dialect":
            reply = {"ok": True}
        else:
            reply = {"seq": message["seq"], **_reply(answer, message)}
        print(json.dumps(reply), file=out, flush=True)


def _reply(answer, message):
    try:
        found = answer(message["op"], message["input"]["path"], message["args"])
    except RejectedError as error:
        return {"rejected": True, "phase": error.args[0], "message": error.args[1]}
    except Exception as error:  # whatever a reader raises is how it rejects
        return {"rejected": True, "message": f"{type(error).__name__}: {error}"[:300]}
    if isinstance(found, dict):
        return found
    if message["want"] == "bytes":
        Path(message["output"]["path"]).write_bytes(found)
    return {"digest": f"sha256:{hashlib.sha256(found).hexdigest()}"}
