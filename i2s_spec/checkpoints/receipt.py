"""The receipt of an imported file: make it, embed it in the file, and repeat its checks.

A receipt is JSON: what was imported (hashes of all files), how (choices made by hand), the contents of every tensor
(hashes of trits and scales), and the result of each check. It is not a signature: anyone who can change the file can
write another receipt. Sign it like any other file.

    import_with_receipt    a file with its receipt, from a checkpoint
    make_receipt           the receipt of a file that exists
    embed_receipt          a receipt into the key of its file
    verify_receipt         the checks once more, of the file alone or with the checkpoint
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec._version import __version__
from i2s_spec.checkpoints.families import quantization_of, sizes_of
from i2s_spec.checkpoints.folder import TEXTS, CheckpointFolder, object_of, refused
from i2s_spec.checkpoints.import_checkpoint import Imported, import_checkpoint
from i2s_spec.checkpoints.receipt_checks import (
    CHECKS,
    COMPARED,
    FAILED,
    NOT_MADE,
    POSITIONS,
    Check,
    codes_check,
    concluded,
    imported_again,
    keys_check,
    lint_check,
    logits_check,
    matrix_of,
    refused_checks,
    tensor_hashes,
    text_check,
    weight_checks,
)
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile, give_name, refuse_taken, unfinished_folder
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import Source, chunks, read_regular, source_of
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

SCHEMA_VERSION: Final = 1
_MOST_RECEIPT: Final = 1 << 26

Path = str | os.PathLike[str]


def make_receipt(
    checkpoint: Path,
    path: Path,
    *,
    family: str | None = None,
    rule: str | None = None,
    weight_scale: str | None = None,
    base: Path | None = None,
    latent: Path | None = None,
    positions: int = POSITIONS,
    only: Collection[str] = tuple(CHECKS),
) -> dict[str, Any]:
    """Check a GGUF file against the checkpoint from which it was made.

    The checkpoint is imported again, and what differs from the file is reported: so a receipt proves that the file is
    what this version (`tool`) makes of this checkpoint. The import goes to a temporary file of the same size.

    :param checkpoint: the folder, or a hub's repository; every file of it is read again
    :param family: the family, if it was given to `import_checkpoint`
    :param rule: the rule, if it was given to `import_checkpoint`
    :param weight_scale: `multiply` or `divide`, if it was given to `import_checkpoint`
    :param base: a GGUF file of the base model of a fine-tune, for check i
    :param latent: another revision of the checkpoint, with floats, for check c
    :param positions: how many tokens' logits are compared
    :param only: letters of the checks to make; the others are `not made`
    :returns: the receipt, as plain data
    :raises ValueError: for unknown letters
    :raises FormatError, OSError: for files that cannot be read
    """
    if unknown := set(only) - CHECKS.keys():
        raise ValueError(f"unknown check {quote(min(unknown))}; there are: {', '.join(CHECKS)}")
    with ExitStack() as stack:
        folder, file = stack.enter_context(CheckpointFolder(checkpoint)), stack.enter_context(open_file(path))
        floats = None if latent is None else stack.enter_context(CheckpointFolder(latent))
        _require_words(folder, weight_scale)
        tensors = tensor_hashes(file)
        made: list[Check] = []
        if set(only) & set(COMPARED):
            again = stack.enter_context(imported_again(folder, file, family, rule, weight_scale))
            if isinstance(again, str):
                made += refused_checks(again)
            else:
                compared: dict[str, Callable[[], list[Check]]] = {
                    "abce": lambda: weight_checks(file, tensors, again, folder, floats),
                    "f": lambda: [text_check(file, again.file, folder)],
                    "g": lambda: [logits_check(file, again.file, positions)],
                    "k": lambda: [keys_check(file, again.file)],
                }
                made += [check for ids, make in compared.items() if set(ids) & set(only) for check in make()]
        alone: dict[str, Callable[[], Check]] = {
            "d": lambda: codes_check(tensors),
            "h": lambda: lint_check(file),
            "i": lambda: _base_check(file, base),
        }
        made += [make() for id, make in alone.items() if id in only]
        made = [check for check in made if check.id in only]
        there = {check.id for check in made}
        made += [Check(id, NOT_MADE, "it was not requested") for id in CHECKS if id not in there]
        checks = sorted(made, key=lambda check: check.id)
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": f"i2s-spec {__version__}",
            "file": _identity(path),
            "checkpoint": [_identity(folder.file(name), folder.source(name)) for name in _files(folder)],
            "choices": {"family": family, "rule": rule, "weight_scale": weight_scale},
            "checks": [check.as_dict() for check in checks],
            "tensors": tensors,
        }


def _require_words(folder: CheckpointFolder, weight_scale: str | None) -> None:
    """Refuse an invalid config.json, as an import does; the checks rely on it.

    :raises FormatError: H104
    """
    try:
        sizes_of(folder.config)
        quantization_of(folder, weight_scale)
        if not isinstance(folder.config.get("architectures", []), list):
            raise refused("architectures in config.json is not a list")
    except FormatError as error:
        raise error.of_file(folder.file("config.json")) from None


def failed(receipt: Mapping[str, Any]) -> list[str]:
    """Return the letters of the checks that failed."""
    return [str(check["id"]) for check in receipt["checks"] if check["status"] == FAILED]


def write_receipt(receipt: Mapping[str, Any], path: Path, force: bool = False) -> None:
    """Write a receipt as JSON, complete or not at all."""
    data = (json.dumps(receipt, indent=1, allow_nan=False) + "\n").encode()
    with OutputFile(path, force=force, size=len(data)) as output:
        output.write(data)


def embed_receipt(receipt: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Write a receipt to the key of its file.

    The file is read again afterwards: its tensors must be those of the receipt, and it is linted again.

    :returns: the receipt of the changed file
    :raises ValueError: if a tensor differs from the receipt, which then belongs to another file
    :raises FormatError, OSError: as `rewrite` does
    """
    with open_file(path) as file:
        if tensor_hashes(file) != receipt["tensors"]:
            raise ValueError("the receipt is about another file: tensors differ")
    embed(receipt, path)
    with open_file(path) as file:
        tensors = tensor_hashes(file)
        again = lint_check(file).as_dict()
    if tensors != receipt["tensors"]:
        raise ValueError("tensors changed while the receipt was written to the file")
    checks = [
        again if check["id"] == again["id"] and check["status"] != NOT_MADE else check for check in receipt["checks"]
    ]
    return {**receipt, "file": _identity(path), "checks": checks}


def verify_receipt(
    path: Path, receipt: Path | None = None, against: Path | None = None, positions: int = POSITIONS
) -> dict[str, Any]:
    """Repeat the checks of a receipt: of the file alone, or with the checkpoint.

    Without the checkpoint, the file is compared with the hashes that the receipt records for every tensor; checks that
    need the checkpoint are `not made`.

    :param receipt: the file with the receipt; by default the receipt in the GGUF file
    :param against: the checkpoint
    :returns: a new receipt; `changed` lists the differences from the old one
    :raises FormatError: H105 for what is not a receipt
    """
    if receipt is not None:
        read = read_receipt(receipt)
    else:
        with open_file(path) as file:
            read = checked_receipt(embedded(file), path)
    if against is not None:
        now = make_receipt(against, path, **_choices(read["choices"]), positions=positions)
    else:
        reason = "the checkpoint was not given: --against names it"
        with open_file(path) as file:
            checks = [Check(id, NOT_MADE, reason) for id in CHECKS if id != "h"]
            now = {
                "schema_version": SCHEMA_VERSION, "tool": f"i2s-spec {__version__}", "file": _identity(path),
                "checkpoint": [], "choices": read["choices"],
                "checks": [check.as_dict() for check in sorted([*checks, lint_check(file)], key=lambda check: check.id)],
                "tensors": tensor_hashes(file, read["tensors"]),
            }  # fmt: skip
    now["changed"] = _differences(read, now)
    return now


def _choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of an import that a receipt records."""
    return {name: given.get(name) for name in ("family", "rule", "weight_scale")}


def read_receipt(path: Path) -> dict[str, Any]:
    """Return a receipt.

    :raises FormatError: H105 for what is not a receipt
    """
    try:
        found = object_of(read_regular(path, _MOST_RECEIPT), os.fsdecode(path))
    except FormatError as error:
        raise _no_receipt(path, error.details["reason"]) from None
    return checked_receipt(found, path)


def checked_receipt(found: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Check that data is a receipt of this version.

    :param path: the file that it comes from
    :raises FormatError: H105 for other data
    """
    kinds = {"file": dict, "checkpoint": list, "choices": dict, "checks": list, "tensors": dict}
    if (
        found.get("schema_version") != SCHEMA_VERSION
        or not all(isinstance(found.get(k), v) for k, v in kinds.items())
        or not all(
            isinstance(each, dict) for each in (*found["checkpoint"], *found["checks"], *found["tensors"].values())
        )
        or not all(isinstance(check.get(word), str) for check in found["checks"] for word in ("id", "status"))
        or not all(isinstance(choice, str | None) for choice in found["choices"].values())
    ):
        raise _no_receipt(path, f"it does not have the form of version {SCHEMA_VERSION}")
    return dict(found)


def _no_receipt(path: Path, reason: str) -> FormatError:
    return FormatError(faults.RECEIPT_MALFORMED, Span(0, 0), reason=TrustedText(reason)).of_file(path)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of a file and its checkpoint from the receipt, in sentences."""
    found = []
    for name in sorted({*before["tensors"], *now["tensors"]}):
        old, new = before["tensors"].get(name), now["tensors"].get(name)
        if old is None or new is None:
            found.append(f"tensor {quote(name)} is {'not in the receipt' if old is None else 'missing'}")
        elif old != new:
            keys = [key for key in {**new, **old} if old.get(key) != new.get(key)]
            found.append(f"tensor {quote(name)} differs: {', '.join(keys)}")
    if not found and before["file"].get("sha256", now["file"]["sha256"]) != now["file"]["sha256"]:
        found.append("the tensors are equal, but other bytes of the file differ")
    if now["checkpoint"]:
        old_files = {str(each.get("name")): each for each in before["checkpoint"]}
        new_files = {each["name"]: each for each in now["checkpoint"]}
        for name in sorted({*old_files, *new_files}):
            if old_files.get(name) != new_files.get(name):
                found.append(f"{quote(name)} of the checkpoint differs")
    status = {each["id"]: each["status"] for each in before["checks"]}
    fail = [check["id"] for check in now["checks"] if check["status"] == FAILED and status.get(check["id"]) != FAILED]
    found += [f"check {id} fails now" for id in fail]
    if set(fail) & set(COMPARED) and before.get("tool") != now["tool"]:
        found.append(f"the receipt was made by {quote(str(before.get('tool')))}; imports by {now['tool']} may differ")
    return found


def _files(folder: CheckpointFolder) -> list[str]:
    """Return the files of a checkpoint that an import reads."""
    return [*(name for name in TEXTS if name in folder.names), *folder.shards]


def _identity(path: Path, source: Source | None = None) -> dict[str, Any]:
    """Name, size and digest of a file; a source that is given is closed."""
    source, name = source or source_of(path), os.path.basename(os.fsdecode(path))
    try:
        digest = hashlib.sha256()
        for chunk in chunks(source, 0, source.size):
            digest.update(chunk)
        return {"name": name, "size": source.size, "sha256": digest.hexdigest()}
    except FormatError as error:
        raise error.of_file(path) from None
    finally:
        source.close()


def _base_check(file: File, base: Path | None) -> Check:
    """Check i: if a fine-tune changed no trit, the training was lost."""
    if base is None:
        return Check("i", NOT_MADE, "no base model was given: --base names a GGUF file of it")
    changed = total = 0
    with open_file(base) as other:
        for name, tensor in file.tensors.items():
            counterpart = other.tensors.get(name)
            if counterpart is None or len(tensor.shape) != 2 or counterpart.shape != tensor.shape:
                continue
            ours = matrix_of(tensor)
            try:
                theirs = matrix_of(counterpart)
            except ValueError as error:
                raise refused(f"tensor {quote(name)} of the base model: {error}", base) from None
            if ours is not None and theirs is not None:
                changed += int(np.count_nonzero(ours.trits != theirs.trits))
                total += ours.trits.size
    if not total:
        return Check("i", NOT_MADE, "the base model has no ternary matrices of the same names and shapes")
    problems = [] if changed else ["no trit differs from the base model: the training was lost"]
    return concluded("i", problems, f"{changed:,} of {counted(total, 'trit')} differ from the base "
                                    f"model ({changed / total:.2%})",
                     {"changed": changed, "of": total})  # fmt: skip


# --- embedded receipt ------------------------------------------------------------------------------------------------
# The key `i2s.receipt` holds the receipt as JSON without the file's own size and hash, which a file cannot contain. It
# says what was checked when the file was made, for users who have only the file; but anyone who changes the file can
# also change the receipt.

#: The key that holds a receipt.
KEY: Final = "i2s.receipt"


def embed(receipt: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a receipt to the key of its file, replacing an existing one; after an error the file is unchanged.

    :raises FormatError, OSError: as `rewrite` does
    """
    name = os.fsdecode(path)
    text = json.dumps({**receipt, "file": {"name": receipt["file"]["name"]}}, separators=(",", ":"), allow_nan=False)
    beside = f"{name}.receipt"
    with open_file(name) as file:
        rewrite(file, beside, set={KEY: Value(ValueType.STRING, text)})
    try:
        os.replace(beside, name)
    except BaseException:
        os.unlink(beside)
        raise


def embedded(file: File) -> dict[str, Any]:
    """Return the receipt in the key.

    :raises FormatError: H105 if there is no such key, or it does not hold a JSON object
    """
    text = file.metadata.get(KEY)
    if not isinstance(text, str):
        raise _refused(f"the file has no text under the key {KEY}; --receipt names a receipt")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(f"the key {KEY} is not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise _refused(f"the key {KEY} is not a JSON object")
    return found


def _refused(reason: str) -> FormatError:
    return FormatError(faults.RECEIPT_MALFORMED, Span(0, 0), reason=TrustedText(reason))


# --- import with receipt ---------------------------------------------------------------------------------------------
# The file is made, checked and written again in a folder with a temporary name, and then gets its own name in one step.
# A run that is killed leaves that folder, which the next run for the same file removes, but never a file without its
# receipt.


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
        made = make_receipt(checkpoint, path, **_choices(choices), base=base, latent=latent)
        receipt = embed_receipt(made, path)
        size = os.path.getsize(path)
        with suppress(OSError):  # no file is replaced, or the file system has no modes
            os.chmod(path, stat.S_IMODE(os.stat(name).st_mode) & 0o777)
        refuse_taken(name, force)
        give_name(path, name, force)
    return imported._replace(size=size), receipt


@contextmanager
def _workplace(name: str) -> Iterator[str]:
    """Provide a temporary folder beside the future file; errors of the file system name that file instead of the
    folder.
    """
    parent, base = os.path.split(os.path.abspath(name))
    try:
        with unfinished_folder(name) as folder:
            yield folder
    except OSError as error:
        beginning = os.path.join(parent, f".{base[:200]}")
        if error.filename is None or not os.fsdecode(error.filename).startswith(beginning):
            raise
        raise OSError(error.errno, error.strerror, name) from error
