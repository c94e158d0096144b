"""This module keeps old addresses of chapters alive: a page at each that leads to the chapter's present one.

Chapters had names that did not sort (`1-scope`, `10-golden`, `2-container`). Links to them, with the section after `#`,
go on to the same section.
"""

from __future__ import annotations

from typing import Final

#: Former names of chapters, and what they are called now.
RENAMED: Final = {
    "1-scope": "01-scope",
    "2-container": "02-container",
    "3-metadata": "03-metadata",
    "4-inventories": "04-inventories",
    "5-payload": "05-payload",
    "6-tail": "06-tail",
    "7-dialects": "07-dialects",
    "8-quantisation": "08-quantization",
    "9-inference": "09-inference",
}

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<!-- Written by i2s_spec.docs.redirects: edit that. -->
<meta charset="utf-8">
<title>This chapter has moved</title>
<meta name="robots" content="noindex">
<script>location.replace("{new}.html" + location.hash)</script>
<meta http-equiv="refresh" content="1; url={new}.html">
</head>
<body>
<p>This chapter has moved: <a href="{new}.html">{new}</a>.</p>
</body>
</html>
"""


def page(former: str) -> str:
    """The page at the former address of a chapter."""
    return _PAGE.format(new=RENAMED[former])
