"""Writes `change.patch`: one new file for the gallery with the output of `i2s schema --format ksy`."""

from pathlib import Path

from i2s_spec.exports import ksy

PLACE = "serialization/gguf_i2s.ksy"


def patch() -> str:
    """The patch that adds the definition."""
    lines = ksy.text().splitlines()
    head = f"diff --git a/{PLACE} b/{PLACE}\nnew file mode 100644\n--- /dev/null\n+++ b/{PLACE}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


if __name__ == "__main__":
    Path(__file__).with_name("change.patch").write_text(patch(), encoding="utf-8")
