"""An adapter for packages of PyPI that read key-values and the tensor table only. Argument: the package.

Run it with the Python of the environment in which the package is installed.
"""

import contextlib
import io
import sys
from importlib import import_module
from importlib.metadata import version

from speak import speak


def gguf_parser(path):
    """Parse and print, as its command does."""
    parser = import_module("gguf_parser").GGUFParser(path)
    parser.parse()
    with contextlib.redirect_stdout(io.StringIO()):
        parser.print()


def gguf_inspect(path):
    """Parse, and add up sizes; a check that fails there counts as a refusal."""
    package = import_module("gguf_inspect")
    if checks := package.compute_sizes(package.parse_gguf(path)).checks:
        raise ValueError("; ".join(map(str, checks)))


def quantbenchx(path):
    """Make the profile of a file."""
    import_module("quantbenchx.profile").profile_gguf(path)


def c4nary(path):
    """Parse."""
    import_module("c4nary.parser").parse_gguf(path)


def answer(op, path, args):
    """Whether the package accepts a file; its values are not compared."""
    READERS[NAME](path)
    return {"verdict": "valid"}


READERS = {"gguf-parser": gguf_parser, "gguf-inspect": gguf_inspect, "quantbenchx": quantbenchx, "c4nary": c4nary}
#: Packages that show the number of an unknown type and read on.
ANY_TYPE = ("gguf-inspect", "quantbenchx", "c4nary")
NAME = sys.argv[1]
about = {"name": NAME, "version": version(NAME), "language": "python", "source": f"PyPI {NAME} {version(NAME)}"}
speak(about, ["container"], answer, ["type.i2_s"] if NAME in ANY_TYPE else [])
