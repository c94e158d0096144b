"""This module lists the published advisories on readers of GGUF that the specification and the rules cite, with subjects.

An advisory may be cited only where its subject is: rules and clauses that cite one must agree with the rules in this
list. Sources: the records of the CVE programme and of the projects' own advisories, as of September 2026.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Advisory(NamedTuple):
    """One published weakness.

    :param program: the affected program
    :param subject: the part of a file that triggered it, and the effect
    :param rules: the rules that find such a part
    """

    id: str
    program: str
    subject: str
    rules: tuple[str, ...]


#: Every advisory, in the order of their numbers.
ADVISORIES: Final[tuple[Advisory, ...]] = (
    Advisory("CVE-2024-12055", "Ollama", "a length in the file is not checked: a read out of bounds", ("G209",)),
    Advisory("CVE-2024-21802", "llama.cpp", "more than 4 dimensions: a write behind an array", ("G308",)),
    Advisory("CVE-2024-21825", "llama.cpp", "number of an array's elements: its product with their size wraps", ("G213",)),
    Advisory("CVE-2024-21836", "llama.cpp", "number of tensors: its product with the size of a record wraps", ("G109",)),
    Advisory("CVE-2024-23496", "llama.cpp", "length of a string, 2^64 - 1: one more for a NUL wraps to 0", ("G209",)),
    Advisory("CVE-2024-23605", "llama.cpp", "number of keys: its product with the size of a record wraps", ("G108",)),
    Advisory("CVE-2024-34359", "llama-cpp-python", "a chat template rendered without a sandbox runs code", ("S201",)),
    Advisory("CVE-2024-39720", "Ollama", "a file of four bytes: a read behind a buffer", ("G001", "G101")),
    Advisory("CVE-2024-41130", "llama.cpp", "a file that ends in its metadata: a null pointer is read", ("G201",)),
    Advisory("CVE-2024-56326", "Jinja", "str.format in a template leaves the sandbox", ("S201",)),
    Advisory("CVE-2024-8063", "Ollama", "block_count 0: a division by zero", ("M004",)),
    Advisory("CVE-2025-0312", "Ollama", "a key that is missing: a null pointer is read", ("M002",)),
    Advisory("CVE-2025-0315", "Ollama", "memory is allocated for a length without a limit", ("G209",)),
    Advisory("CVE-2025-0317", "Ollama", "general.alignment 0: a division by zero", ("G218",)),
    Advisory("CVE-2025-49847", "llama.cpp", "length of a token's text beyond 2^31 - 1: a write behind a buffer", ("S210",)),
    Advisory("CVE-2025-52566", "llama.cpp", "a template that makes more than 2^31 - 1 tokens: likewise", ("S202",)),
    Advisory("CVE-2025-53630", "llama.cpp", "the sum of the padded sizes of tensors wraps", ("G410",)),
    Advisory("CVE-2025-66959", "Ollama", "a length in the file is not compared with anything", ("G209",)),
    Advisory("CVE-2026-27940", "llama.cpp", "this sum and the memory for the records wrap", ("G410",)),
    Advisory("CVE-2026-33298", "llama.cpp", "the size of a tensor in bytes wraps", ("G312",)),
    Advisory("CVE-2026-5760", "SGLang", "a chat template rendered without a sandbox runs code", ("S201",)),
    Advisory("CVE-2026-7482", "Ollama", "offset and size of a tensor beyond the file: memory is read and sent away",
             ("G402",)),
    Advisory("GHSA-g4cc-763q-h9h6", "llama.cpp", "id of a special token beyond the vocabulary: a read out of bounds",
             ("T008",)),
)  # fmt: skip
