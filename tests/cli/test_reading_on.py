"""Files with a fault behind which reading goes on: every verb reads the same, and says so on stderr."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.cli.replay import ran
from i2s_spec.errors import ReadOnWarning
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.schema import container
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import key_value

ALIGNMENT, LONG = b"general.alignment", b"k" * 65_536

#: The key-value that is put in front, and the code of its fault.
FAULTS: dict[str, tuple[bytes, ValueType, Any, str]] = {
    "i32": (ALIGNMENT, ValueType.INT32, 32, "G217"),
    "u64": (ALIGNMENT, ValueType.UINT64, 32, "G217"),
    "text": (ALIGNMENT, ValueType.STRING, b"32", "G217"),
    "24": (ALIGNMENT, ValueType.UINT32, 24, "G219"),
    "long": (LONG, ValueType.BOOL, True, "G204"),
}
VERBS = (
    "show {}", "hash {}", "identify {}", "decode {} blk.0.attn_q.weight -o out.npy", "diff {} sound.gguf", "dump {} header",
    "convert {} out.gguf --to TQ2_0", "run {} --tokens 1,2 -n 1 --force", "lint {}", "doctor {}",
    "golden record {} --tokens 1,2 -o out.golden --force",
)  # fmt: skip


def broken(name: bytes, kind: ValueType, value: Any, laid: int = 32) -> bytes:
    file = container.parse(model_bytes("llama"))
    file.key_values.insert(0, key_value(name, kind, value))
    file.header.key_count += 1
    bare = file.copy()
    bare.padding = bare.data = b""
    file.padding = bytes(-len(container.build(bare)) % laid)
    return bytes(container.build(file))


def _without_results(folder: Path) -> None:
    for made in folder.glob("out.*"):
        shutil.rmtree(made) if made.is_dir() else made.unlink()


@pytest.mark.parametrize("fault", FAULTS)
def test_every_verb_reads_on_and_says_why(fault: str, tmp_path: Path) -> None:
    (tmp_path / "sound.gguf").write_bytes(model_bytes("llama"))
    *key, code = FAULTS[fault]
    (tmp_path / "m.gguf").write_bytes(broken(*key))
    for line in VERBS:
        verb, *rest = line.format("m.gguf").split()
        done = ran([verb, *rest], tmp_path)
        text = (done.stdout + done.stderr).decode()
        _without_results(tmp_path)
        sound = ran([verb, *line.format("sound.gguf").split()[1:]], tmp_path)
        _without_results(tmp_path)
        assert code in text, line
        assert "internal error" not in text, line
        assert "cannot be read to its end" not in text, line
        assert done.returncode == sound.returncode or verb in ("lint", "doctor", "diff"), (line, text)
    with pytest.warns(ReadOnWarning, match=code):
        file = open_file(tmp_path / "m.gguf")
    with file, open_file(tmp_path / "sound.gguf") as other:
        for name in other.tensors:
            assert np.array_equal(file.tensors[name].dequantize(), other.tensors[name].dequantize())


def test_a_header_that_offsets_contradict_is_not_read(tmp_path: Path) -> None:
    """Where nothing can go on, no verb says what the weights show."""
    (tmp_path / "m.gguf").write_bytes(broken(ALIGNMENT, ValueType.UINT32, 40, 40))
    assert (struct.unpack("<I", (tmp_path / "m.gguf").read_bytes()[0x35:0x39])) == (40,)
    page = " ".join(ran(["doctor", "m.gguf"], tmp_path).stdout.decode().split())
    assert "not read to its end, because of G219 alignment-not-power-of-two" in page
    assert "these weights do not show" not in page
    assert "what follows the fault in the header" in page
    for line in ("hash m.gguf", "show m.gguf", "decode m.gguf blk.0.attn_q.weight x.npy", "run --tokens 1 m.gguf"):
        verb = line.split()[0]
        done = ran(line.split(), tmp_path)
        assert done.returncode in (1, 3), verb
        assert b"G219" in done.stderr, verb
