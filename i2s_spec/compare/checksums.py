r"""Lists of checksums: what `i2s hash --write` writes and `--check` reads, and `sha256sum -c` as well.

    2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  model.gguf
    # i2s-weights-1 canonical c0ff...  model.gguf

The first line is sha256sum's: the SHA-256 of the bytes, two blanks, the name; with a backslash before it where the name
holds one, or an end of line, which are then written as `\\`, `\n` and `\r`. The second is a comment for sha256sum: the
identity of the weights (`compare.hash`), and the dialect in which they were read. Where the bytes of a file are others, it
says whether the weights are. Lines of `sha256sum --binary` and `--tag` are read, too.

Names are paths of this machine, whatever they look like, from the current folder on.

    >>> line("ab" * 32, "a\nb").startswith("\\abab")
    True
    >>> read(b"\\" + b"ab" * 32 + b"  a\\nb\n")[0].name
    'a\nb'
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from i2s_spec.errors import FormatError, counted
from i2s_spec.gguf.source import FileSource, chunks

#: No list that is read has more bytes.
LARGEST: Final = 64 << 20

_WEIGHTS: Final = "# i2s-weights-1"
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_PLAIN: Final = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_TAGGED: Final = re.compile(r"(\\?)SHA256 \((.+)\) = ([0-9a-fA-F]{64})", re.DOTALL)
_OF_WEIGHTS: Final = re.compile(re.escape(_WEIGHTS) + r" (\S+) (\\?)([0-9a-fA-F]{64}) {2}(.+)", re.DOTALL)


class Checksum(NamedTuple):
    """A file of a list: its SHA-256, and, where they are listed, the identity of its weights and their dialect."""

    name: str
    sha256: str
    weights: str | None = None
    dialect: str = "canonical"


class CheckedFile(NamedTuple):
    """A file that was compared with its checksum.

    :param problem: why it could not be read; None where it was
    :param same: whether its bytes are those of the list
    :param same_weights: of other bytes, whether the weights are; None where that is not known
    """

    name: str
    problem: str | None
    same: bool
    same_weights: bool | None = None


def line(digest: str, name: str) -> str:
    """Return a line of sha256sum, without its end."""
    escaped = "".join(_ESCAPES.get(char, char) for char in name)
    return f"{'' if escaped == name else chr(92)}{digest}  {escaped}"


def weights_line(digest: str, dialect: str, name: str) -> str:
    """Return the comment with the identity of the weights of a file, without its end."""
    return f"{_WEIGHTS} {dialect} {line(digest, name)}"


def read(data: bytes) -> list[Checksum]:
    """Return the files of a list, in its order.

    :raises ValueError: for a line that is neither a checksum nor a comment, and for a list without any
    """
    found: list[Checksum] = []
    weights: dict[str, tuple[str, str]] = {}
    for number, row in enumerate(data.split(b"\n"), 1):
        text = os.fsdecode(row.removesuffix(b"\r"))
        if match := _OF_WEIGHTS.fullmatch(text):
            dialect, mark, digest, name = match.groups()
            weights[_name(name, mark, number)] = digest.lower(), dialect
        elif match := _PLAIN.fullmatch(text):
            mark, digest, name = match.groups()
            found.append(Checksum(_name(name, mark, number), digest.lower()))
        elif match := _TAGGED.fullmatch(text):
            mark, name, digest = match.groups()
            found.append(Checksum(_name(name, mark, number), digest.lower()))
        elif text and not text.startswith("#"):
            raise ValueError(f"line {number:,} is no line of sha256sum")
    if not found:
        raise ValueError("it lists no file")
    nothing = (None, "canonical")
    return [Checksum(each.name, each.sha256, *weights.get(each.name, nothing)) for each in found]


def _name(text: str, mark: str, number: int) -> str:
    """Return a name as it is, where the line has the mark of escapes.

    :raises ValueError: for an escape that sha256sum does not write, and for a name that no file can have
    """
    if mark:
        names = {escaped: char for char, escaped in _ESCAPES.items()}
        if re.search(r"(?:^|[^\\])(?:\\\\)*\\(?![\\nr])", text):
            raise ValueError(f"line {number:,} has an escape that sha256sum does not write")
        text = re.sub(r"\\[\\nr]", lambda found: names[found[0]], text)
    if "\0" in text:
        raise ValueError(f"line {number:,} has a name with NUL")
    return text


def check(
    listed: list[Checksum],
    identify: Callable[[str, str], str | None],
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[CheckedFile]:
    """Compare files with their checksums.

    :param identify: gives the identity of the weights of a file in a dialect; None where it has none
    :param progress: called now and then with bytes that were read, and bytes to read
    """
    sizes = [os.path.getsize(each.name) if os.path.isfile(each.name) else 0 for each in listed]
    done, total = 0, sum(sizes)
    for each in listed:
        digest = hashlib.sha256()
        try:
            source = FileSource(each.name)
            try:
                for part in chunks(source, 0, source.size):
                    digest.update(part)
                    done += len(part)
                    if progress is not None:
                        progress(done, total)
            finally:
                source.close()
            if digest.hexdigest() == each.sha256:
                yield CheckedFile(each.name, None, True)
                continue
            weights = None if each.weights is None else identify(each.name, each.dialect)
            same_weights = None if weights is None else weights == each.weights
            yield CheckedFile(each.name, None, False, same_weights)
        except FormatError as error:
            yield CheckedFile(each.name, error.message, False)


def words(found: CheckedFile) -> str:
    """Return the answer on one file, after its name."""
    if found.problem is not None:
        return f"FAILED: {found.problem}"
    if found.same:
        return "OK"
    about = {True: "; the weights are the same", False: "; the weights are others, too", None: ""}
    return f"FAILED: other bytes{about[found.same_weights]}"


def summary(found: list[CheckedFile]) -> str:
    """Return how many files do not agree, in a sentence."""
    return f"{sum(not each.same for each in found):,} of {counted(len(found), 'file')} not as listed"
