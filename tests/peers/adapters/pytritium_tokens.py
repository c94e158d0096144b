"""An adapter for pytritium, which returns tokens alone."""

from importlib.metadata import version

import tritium
from speak import speak

#: A number that ends no text.
NEVER = 4_000_000_000


def answer(op, path, args, _tokens=None):
    found = tritium.Model.load(path).generate(list(args["tokens"]), args["count"], eos=NEVER)
    return {"json": {"ids": [int(token) for token in found]}}


V = version("pytritium")
ABOUT = {"name": "pytritium", "version": V, "language": "rust", "source": f"PyPI pytritium {V}"}
FEATURES = ["type.i2_s", "layout.x86-128", "type.tq1_0", "type.tq2_0", "type.q2_0", "arch.bitnet-b1.58"]
speak(ABOUT, ["generate"], answer, FEATURES)
