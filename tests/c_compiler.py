"""Settings shared by tests that compile C: warnings that are errors, and sanitizer reports that fail a test."""

from __future__ import annotations

import pytest

#: Every warning is an error.
WARNINGS = ("-Wall", "-Wextra", "-Werror")

#: What any sanitizer takes; -Og compiles in two thirds of the time of -O1, -g1 names functions and lines in reports, and what -g says of variables is a third of the time.
REPORTING = ("-Og", "-g1", "-fno-sanitize-recover=all")

#: Addresses, and what C leaves undefined.
SANITIZERS = ("-fsanitize=address,undefined", *REPORTING)

#: For headers that others compile with flags of their own: C without extensions, under both sanitizers.
STRICT = ("-std=c99", *WARNINGS, "-pedantic", *SANITIZERS)


def skip_without_shadow_memory(stderr: str) -> None:
    """Skip where the system loaded a program at an address that ThreadSanitizer needs: that is left to chance."""
    if "unexpected memory mapping" in stderr:
        pytest.skip("the system puts a program where the thread sanitizer cannot run it, now and then")
