"""Texts that would act on a terminal or hide other text; no output may contain them unescaped."""

from __future__ import annotations

HARMFUL = [
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J",
    "\r\n",
    "\u202e",
    "\u2066x\u2069",
    "\x9b31m",
    "\x7f",
    "\ufeff",
    "\u200b",
    "\x00",
]
