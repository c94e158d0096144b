"""What tests that compile C have in common: the warnings that are errors, and what a sanitizer may not find here."""

from __future__ import annotations

import pytest

#: Every warning is an error.
WARNINGS = ("-Wall", "-Wextra", "-Werror")

#: For headers that others compile with flags of their own: C without extensions, under both sanitizers.
STRICT = (
    "-std=c99", *WARNINGS, "-pedantic", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip


def skip_without_shadow_memory(stderr: str) -> None:
    """Skip where the system loaded a program at an address that ThreadSanitizer needs: that is left to chance."""
    if "unexpected memory mapping" in stderr:
        pytest.skip("the system puts a program where the thread sanitizer cannot run it, now and then")
