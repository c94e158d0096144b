"""Settings shared by tests that compile C: warnings that are errors, and sanitizer reports that fail a test."""

from __future__ import annotations

import pytest

#: Every warning is an error.
WARNINGS = ("-Wall", "-Wextra", "-Werror")

#: Options for every sanitizer. -Og compiles in two thirds of the time of -O1. -g1 gives reports names of functions and
#: lines; -g adds variables and takes half as long again.
REPORTING = ("-Og", "-g1", "-fno-sanitize-recover=all")

#: Invalid memory accesses and undefined behavior.
SANITIZERS = ("-fsanitize=address,undefined", *REPORTING)

#: For headers that others compile with their own options: strict C99, under both sanitizers.
STRICT = ("-std=c99", *WARNINGS, "-pedantic", *SANITIZERS)


def skip_without_shadow_memory(stderr: str) -> None:
    """Skip if the system happened to load the program at an address that ThreadSanitizer needs."""
    if "unexpected memory mapping" in stderr:
        pytest.skip("the system puts a program where the thread sanitizer cannot run it, now and then")
