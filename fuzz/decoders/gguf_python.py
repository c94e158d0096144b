"""A decoder for `i2s fuzz`: the package `gguf`, reading all parts of a file.

i2s fuzz --supports alignment -- python fuzz/decoders/gguf_python.py
"""

from __future__ import annotations

import sys

from gguf import GGUFReader

reader = GGUFReader(sys.argv[1])
for field in reader.fields.values():
    field.contents()
for tensor in reader.tensors:
    tensor.data.tobytes()
