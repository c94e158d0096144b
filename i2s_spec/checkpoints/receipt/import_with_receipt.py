"""This module makes a GGUF file with its receipt from a checkpoint: `import_with_receipt`.

The file is made, checked and written again in a folder with a temporary name, and then gets its own name in one step. A
run that is killed leaves that folder, which the next run for the same file removes, but never a file without its
receipt.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from i2s_spec.checkpoints.receipt.make_receipt import embed_receipt, make_receipt
from i2s_spec.checkpoints.writing.import_checkpoint import Imported, import_checkpoint
from i2s_spec.gguf.atomic_file import give_name, refuse_taken
from i2s_spec.gguf.unfinished import unfinished_folder

if TYPE_CHECKING:
    from i2s_spec.checkpoints.receipt.make_receipt import Path


def import_with_receipt(
    checkpoint: Path,
    target: Path,
    *,
    base: Path | None = None,
    latent: Path | None = None,
    force: bool = False,
    **choices: Any,
) -> tuple[Imported, dict[str, Any]]:
    """Import a checkpoint, check the file, and put the receipt into its keys before it gets its name.

    :param base: as for `make_receipt`
    :param latent: as for `make_receipt`
    :param force: replace an existing file
    :param choices: the keywords of `import_checkpoint`
    :returns: the result of the import, and the receipt of the final file
    :raises FormatError, OSError: as `import_checkpoint` and `make_receipt` do; then nothing is written
    """
    name = os.fsdecode(target)
    refuse_taken(name, force)
    with _workplace(name) as folder:
        path = os.path.join(folder, os.path.basename(name))
        imported = import_checkpoint(checkpoint, path, **choices)
        made = make_receipt(
            checkpoint,
            path,
            rule=choices.get("rule"),
            weight_scale=choices.get("weight_scale"),
            base=base,
            latent=latent,
        )
        receipt = embed_receipt(made, path)
        size = os.path.getsize(path)
        with suppress(OSError):  # no file is replaced, or the file system has no modes
            os.chmod(path, stat.S_IMODE(os.stat(name).st_mode) & 0o777)
        refuse_taken(name, force)
        give_name(path, name, force)
    return imported._replace(size=size), receipt


@contextmanager
def _workplace(name: str) -> Iterator[str]:
    """A temporary folder beside the future file; errors of the file system name that file instead of the folder."""
    parent, base = os.path.split(os.path.abspath(name))
    try:
        with unfinished_folder(name) as folder:
            yield folder
    except OSError as error:
        beginning = os.path.join(parent, f".{base[:200]}")
        if error.filename is None or not os.fsdecode(error.filename).startswith(beginning):
            raise
        raise OSError(error.errno, error.strerror, name) from error
