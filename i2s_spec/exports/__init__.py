"""The schema in other languages: JSON, Kaitai Struct, ImHex's pattern language, and a C header that decodes; and the
registry of type numbers as JSON and as tab-separated values.

Each is written from the declarations in `schema/` and from nothing else, through one neutral description of them:

    description   records, fields and shapes, found by walking the constructs
    formula       the index arithmetic of the layouts in other languages
    json_form, ksy, hexpat, c_header (with c_walker, c_fixed), javascript     one language each
    registry_form     every meaning of every number, in both forms
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from i2s_spec.exports import c_header, imhex, json_form, kaitai
from i2s_spec.exports import json_form as registry_form

#: The forms that `export` can write: name -> (file name, the function that makes its text).
FORMS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "json": ("i2s.json", json_form.text),
    "ksy": ("gguf_i2s.ksy", kaitai.text),
    "hexpat": ("gguf_i2s.hexpat", imhex.text),
    "c": ("i2s.h", c_header.text),
    "registry": ("type_numbers.json", registry_form.json_text),
    "registry-tsv": ("type_numbers.tsv", registry_form.tsv_text),
}


def export(form: str) -> str:
    """The schema in one of `FORMS`; the same bytes on every machine.

    :raises ValueError: for another form
    """
    if form not in FORMS:
        raise ValueError(f"no form is called {form!r}; there are {', '.join(FORMS)}")
    return FORMS[form][1]()
