"""The schema in other languages: JSON, Kaitai Struct, ImHex, C, WGSL and CUDA C; and the registry of type numbers.

`export` writes them. Each is made from the declarations in `schema/` and from nothing else:

    kaitai        a Kaitai Struct definition
    imhex         a pattern of ImHex, the hex editor
    c_header      a C header, from the text of `i2s.h.in`: decoder and bounded walker
    wgsl          compute shaders: decode, dequantise, product, codes
    cuda          kernels in CUDA C: the same, and the products of one token and of many as a GPU is fast
    json_form     the schema and the registry as JSON, the registry as a table; the shapes of records, for all others
    javascript    the script of the interactive page; the formulas of layouts in other languages, for all others

C, WGSL and CUDA C are texts with holes, `i2s.*.in`, which `c_header.filled` fills. All call the last two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from i2s_spec.exports import c_header, cuda, imhex, json_form, kaitai, wgsl

#: The forms that `export` can write: name -> (file name, the function that makes its text).
FORMS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "json": ("i2s.json", json_form.text),
    "ksy": ("gguf_i2s.ksy", kaitai.text),
    "hexpat": ("gguf_i2s.hexpat", imhex.text),
    "c": ("i2s.h", c_header.text),
    "wgsl": ("i2s.wgsl", wgsl.text),
    "cuda": ("i2s.cu", cuda.text),
    "registry": ("type_numbers.json", json_form.json_text),
    "registry-tsv": ("type_numbers.tsv", json_form.tsv_text),
}


def export(form: str) -> str:
    """Return the schema in one of `FORMS`; the same bytes on every machine.

    :raises ValueError: for another form
    """
    if form not in FORMS:
        raise ValueError(f"no form is called {form!r}; there are {', '.join(FORMS)}")
    return FORMS[form][1]()
