"""A file and a name with text that tries to act as markup or a command in every format of a report."""

from __future__ import annotations

from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, key_value

#: Keys and tensor names, each with an injection for one output syntax.
PAYLOADS = (
    "\x1b[31mred\x1b]0;title\x07",
    "::error file=x,title=y::forged",
    "%0A::error::forged",
    "\n::error::forged",
    "a|b|c",
    "<script>alert(1)</script>",
    "</details><img src=x onerror=alert(1)>",
    "]]><!-- & &amp; ' \" -->",
    "\u202egnp.exe\u2066",
    "`` ` ```",
    "[text](javascript:alert(1)) ![i](http://evil.example/x.png)",
    "http://evil.example/ www.evil.example a@evil.example @someone #1",
    "**bold** _it_ ~~gone~~ \\",
    '","code":"X000","x":"',
    "{0} {got} %s $HOME $(id)",
    "\ud800\uffff\x85\u2028\x7f\x9b31m",
)

#: A file name with such injections; file names cannot contain `/` or NUL.
NAME = "a,b:c%0A|`<b>`&\x1b[2J\u202e\n::error::x .gguf"


def hostile() -> bytes:
    """A file with all of them as keys and tensor names, some of them twice."""
    draft = Draft()
    file = draft.records()
    for text in PAYLOADS:
        data = text.encode("utf-8", "surrogatepass")
        file.key_values += [key_value(data, ValueType.UINT8, 1)] * 2
    file.tensor_infos[0].name = PAYLOADS[5].encode() + PAYLOADS[0].encode()
    file.tensor_infos[1].name = PAYLOADS[7].encode() + b"\x00" + PAYLOADS[4].encode()
    return draft.built(file)
