"""Rules about what a file is instead of a GGUF file, and whether it can be read at all."""

from i2s_spec.linter.rule import NOT_GGUF, raised
from i2s_spec.schema import faults

raised(
    faults.EMPTY_FILE,
    """The file is empty.

    Why: a download failed at its start, or the file was created and never written.

    Example: a model file of 0 bytes.

    Fix: fetch or write the file again.
    """,
    clause="12.1",
    provenance=("CVE-2024-39720", "llama.cpp tests/test-gguf.cpp HEADER_EMPTY"),
    cwe=125,
    stops=NOT_GGUF,
)

raised(
    faults.NOT_GGUF,
    """The file does not start with the GGUF magic.

    Why: every loader compares the first four bytes with 'GGUF' and refuses anything else, often with a message that
    names another cause.

    Example: a text file that was renamed to model.gguf.

    Fix: find the right file; a conversion to GGUF starts from the original checkpoint.
    """,
    clause="2.2",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_MAGIC",),
    stops=NOT_GGUF,
)

raised(
    faults.LFS_POINTER,
    """The file is a Git LFS pointer.

    Why: a repository was cloned without Git LFS, so the file contains a few lines of text instead of the model. Loaders
    report an invalid magic.

    Example: a file of about 130 bytes that begins with 'version https://git-lfs.github.com/spec/v1'.

    Fix: install Git LFS and run 'git lfs pull', or download the file itself.
    """,
    clause="12.1",
    provenance=("ollama/ollama#5600",),
    stops=NOT_GGUF,
)

raised(
    faults.HTML_PAGE,
    """The file is an HTML page.

    Why: a download link that needs a login, an agreement or a redirect returned a web page, which was saved under the
    model's name.

    Example: a file that begins with '<!DOCTYPE html>'.

    Fix: download the file again from its direct link.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.ARCHIVE,
    """The file is an archive or a compressed file.

    Why: loaders read plain GGUF files only, never from inside a zip, gzip or similar file.

    Example: a file that begins with 'PK', as zip archives and PyTorch checkpoints do.

    Fix: unpack it; a PyTorch checkpoint has to be converted.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.LEGACY_GGML,
    """The file has a format that preceded GGUF.

    Why: the formats ggml, ggmf and ggjt of 2023 had almost no metadata, and no current loader reads them.

    Example: a file that begins with 'tjgg', which is 'ggjt' as a little-endian number.

    Fix: convert the original checkpoint to GGUF.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.SWAPPED_MAGIC,
    """The magic is byte-swapped.

    Why: the magic is four characters, not a number: it reads 'GGUF' in big-endian files too. A writer that swaps it
    makes a file that no loader accepts.

    Example: a file that begins with 'FUGG'.

    Fix: write the characters G, G, U, F in this order, in both byte orders.
    """,
    clause="2.2",
    stops=NOT_GGUF,
)

raised(
    faults.OTHER_FORMAT,
    """The file has another known format.

    Why: no loader of GGUF reads it. Safetensors and pickle checkpoints must be converted; a program or a document has
    the wrong name.

    Example: a safetensors file that was renamed to model.gguf.

    Fix: convert it with the converter of its format, or find the right file. `i2s import FOLDER -o OUT.gguf` converts a
    folder with `config.json` and safetensors files.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.TEXT_DECODED,
    """The file went through a text decoder.

    Why: a program read the model as text and wrote it again. Bytes that are not UTF-8 became U+FFFD, the bytes EF BF
    BD, and everything after the first of them has moved, so that readers find lengths and counts in the wrong places.
    The whole file is valid UTF-8, which a file with float weights never is.

    Example: a script that copies a model with open(path, errors='replace').read(), or a web server that serves it as
    text.

    Fix: fetch or copy the file again, as bytes. Bytes that became U+FFFD are lost. A file that was decoded as Latin-1
    can be restored: decode it as UTF-8 and encode it as Latin-1.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.UTF_16,
    """The file was written as UTF-16.

    Why: a program read the model as text and wrote it with two bytes for each character, so every second byte is zero
    and the magic is not 'GGUF' to any loader.

    Example: a file that a redirection of Windows PowerShell ('>') wrote, which begins with FF FE 47 00 47 00.

    Fix: fetch or copy the file again, as bytes.
    """,
    clause="12.1",
    stops=NOT_GGUF,
)

raised(
    faults.UNREADABLE,
    """The file cannot be read.

    Why: the file does not exist, this user may not read it, or the device reports an error. Nothing is known about its
    content.

    Example: a path with a typing error.

    Fix: correct the path or the permissions.
    """,
    clause="12.4",
)

raised(
    faults.NOT_A_FILE,
    """The path is not a regular file.

    Why: a FIFO or a device can block forever or never end, so i2s opens regular files only.

    Example: /dev/zero, a named pipe, a directory.

    Fix: name a regular file. `i2s lint FOLDER` checks every GGUF file below a folder.
    """,
    clause="12.4",
)

raised(
    faults.CHANGED,
    """The file changed while it was read.

    Why: parts of two different contents were read, so the result may be right for neither. The operating system can
    kill a reader that maps such a file into memory.

    Example: a download that was running, or was restarted, during the check.

    Fix: wait until no program writes to the file, and check it again.
    """,
    clause="12.4",
    cwe=367,
)
