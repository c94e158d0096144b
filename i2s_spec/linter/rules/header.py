"""Rules about the beginning of a file: whether it is GGUF and can be read, and version, byte order and counts."""

from collections.abc import Iterator

from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import BYTES_MISSING, NOT_GGUF, NOTE, Finding, Stops, raised, rule
from i2s_spec.schema import faults
from i2s_spec.schema.faults import VERSION_SPAN

raised(
    faults.HEADER_TRUNCATED,
    """The file ends inside the header.

    Why: magic, version and two counts take 24 bytes. A parser that reads the counts without looking at the size reads
    beyond its buffer.

    Example: a file of the four bytes 'GGUF'.

    Fix: fetch or write the file again.
    """,
    clause="2.2",
    provenance=("CVE-2024-39720", "llama.cpp tests/test-gguf.cpp HEADER_EMPTY"),
    cwe=125,
    stops=Stops("header", "the header is not whole"),
)

raised(
    faults.VERSION_ZERO,
    """The version is 0.

    Why: no such version exists. Upstream refuses it; the BitNet fork reads on and misparses the file.

    Example: a version field of four zero bytes.

    Fix: write version 3.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_0",),
)

raised(
    faults.VERSION_ONE,
    """The version is 1.

    Why: version 1 had 32-bit counts and lengths. llama.cpp and its relatives refuse it by name; candle, pmetal,
    llama-rs and @huggingface/gguf read it.

    Example: a file converted in August 2023.

    Fix: convert the original checkpoint again.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_1",),
)

raised(
    faults.VERSION_UNKNOWN,
    """The version is newer than any known version.

    Why: the rest of the file may have another layout. Upstream refuses the file; the BitNet fork does not check the
    version and may misparse it.

    Example: version 4.

    Fix: if the rest of the file has the form of version 3, write 3.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_FUTURE",),
)

raised(
    faults.BYTE_ORDER_UNCLEAR,
    """The version is valid in neither byte order.

    Why: a file does not state its byte order; readers infer it from the version, whose low 16 bits are zero in the
    wrong order. Here they are zero, but the byte-swapped number is not a known version either.

    Example: a version field of 00 00 00 09.

    Fix: write version 3 in the byte order of the rest of the file.
    """,
    clause="2.3",
)

raised(
    faults.KEY_COUNT,
    """The header counts more key-values than the file can hold.

    Why: the smallest key-value takes 13 bytes. A reader that trusts the count can be made to allocate any amount of
    memory, or its multiplication overflows 64 bits.

    Example: a key count of 2^64 - 1 in a file of 64 bytes.

    Fix: write the number of key-values that follow.
    """,
    clause="2.2",
    provenance=("CVE-2024-23605", "llama.cpp tests/test-gguf.cpp HEADER_BAD_N_KV"),
    cwe=770,
    stops=BYTES_MISSING,
)

raised(
    faults.TENSOR_COUNT,
    """The header counts more tensors than the file can hold.

    Why: the smallest tensor info takes 24 bytes. A reader that trusts the count can be made to allocate any amount of
    memory, or its multiplication overflows 64 bits.

    Example: a tensor count of 2^32 - 1 in a file of 64 bytes.

    Fix: write the number of tensor infos that follow.
    """,
    clause="2.2",
    provenance=("CVE-2024-21836", "llama.cpp tests/test-gguf.cpp HEADER_BAD_N_TENSORS", "ggml-org/llama.cpp#15711"),
    cwe=770,
    stops=BYTES_MISSING,
)


@rule("G106", "big-endian", "the file is big-endian; few loaders read it", severity=NOTE, clause="2.3")
def big_endian(subject: LintContext) -> Iterator[Finding]:
    """The file is big-endian.

    Why: version 3 allows it, and only the version field shows it. Loaders on little-endian machines refuse such a file.
    The float32 scale of every I2_S tensor must be big-endian too.

    Example: a version field of 00 00 00 03.

    Fix: convert the file to little-endian if it is meant for common machines.
    """
    if subject.file.version is not None and subject.file.byte_order == "big":
        yield big_endian.at(VERSION_SPAN, got="big", want="little")


@rule("G107", "version-two", "the file has version {got}", severity=NOTE, clause="2.3")
def version_two(subject: LintContext) -> Iterator[Finding]:
    """The file has version 2.

    Why: it has the same layout as version 3, and every loader of I2_S that was run accepts it; ggus and gguf-rs-lib do
    not. candle writes this version today. Only big-endian files need version 3.

    Example: a file written before October 2023.

    Fix: nothing has to be done.
    """
    if subject.file.version == 2:
        yield version_two.at(VERSION_SPAN, got=2, want=3)


# --- files that are something else, and files that cannot be read ----------------------------------------------------

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

    Why: loaders of I2_S compare the first four bytes with 'GGUF' and refuse anything else, often with a message that
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

    Why: the formats ggml, ggmf and ggjt of 2023 had almost no metadata. llama.cpp and its relatives refuse them; candle
    still reads ggjt.

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
    makes a file that no loader of I2_S accepts; gguf-rs and candle have taken such files.

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
    faults.LEADS_OUT,
    """A link in a folder leads out of it.

    Why: a folder from a clone or an archive can hold links to anything that you can read. A report on such a file, or a
    model that is made from it, would show its content to others. Links that stay below the folder are followed, and
    those of the hub's cache to its blobs.

    Example: `models/p.gguf`, which is a link to `/etc/passwd`, in a run over `models`.

    Fix: put a copy in place of the link, or name the file itself: what you name is opened wherever it is.
    """,
    clause="12.4",
    cwe=59,
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
