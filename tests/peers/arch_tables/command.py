"""`python tests/peers table`: make the table from sources, and compare it with the one that is shipped.

    python tests/peers table --sdist 0.3.36 -o i2s_spec/schema/llama_cpp.json.gz
    python tests/peers table --sdist --check        the newest sources: what differs, and whether enough was read
    python tests/peers table TREE -o table.json

The status is 1 where the new table may not replace the shipped one; then nothing is written, and the reasons are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from peers.arch_tables.sdist import Origin, download, origin, unpack
from peers.arch_tables.table import Table, as_text, counts, differences, faults, make_table

#: The table in the package.
SHIPPED: Final = Path(__file__).resolve().parents[3] / "i2s_spec" / "schema" / "llama_cpp.json.gz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("tree", nargs="?", type=Path, metavar="TREE", help="a checkout of llama.cpp")
    source.add_argument(
        "--sdist", nargs="?", const="", metavar="VERSION", help="the tree in llama-cpp-python's source distribution"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="the table's file: .json, or .json.gz")
    parser.add_argument("--check", action="store_true", help="print what differs from the shipped table")
    parser.add_argument("--shipped", type=Path, default=SHIPPED, metavar="FILE", help="the table to compare with")
    parser.add_argument("--commit", help="of a tree that git does not know")
    parser.add_argument("--date", help="of that commit, as YYYY-MM-DD")


def run(options: argparse.Namespace) -> int:
    """Make a table; the result is the exit status."""
    try:
        table = _made(options)
    except (OSError, RuntimeError, SyntaxError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    shipped = read_table(options.shipped) if options.shipped.is_file() else None
    print(
        f"{table['commit']} of {table['date']}: "
        + ", ".join(f"{count} {what}" for what, count in counts(table).items())
    )
    if options.check and shipped is not None:
        for line in differences(shipped, table):
            print(line)
    reasons = faults(table, shipped)
    for reason in reasons:
        print(reason, file=sys.stderr)
    if options.output is not None and not reasons:
        write_table(table, options.output)
    return int(bool(reasons))


def _made(options: argparse.Namespace) -> Table:
    """The table of the sources that the command names."""
    with tempfile.TemporaryDirectory(prefix="i2s-llama-cpp-") as folder:
        tree = options.tree
        if tree is None:
            tree = unpack(download(options.sdist or None, Path(folder)), Path(folder))
        named = Origin(options.commit, options.date) if options.commit and options.date else origin(tree)
        return make_table(tree, *named)


def read_table(path: Path) -> Table:
    """A table from its file."""
    data = path.read_bytes()
    found: Table = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def write_table(table: Table, path: Path) -> None:
    """Write a table; equal tables give equal bytes."""
    data = as_text(table).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
