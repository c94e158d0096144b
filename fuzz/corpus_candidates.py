"""Candidates for the corpus of each harness, by name: `make_corpus` keeps those that reach more than is reached already."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

from candidates_build import Candidates, number_key, small_malformed, text_key, texts_key, with_settings
from candidates_command_line import command_lines
from candidates_golden import comparisons
from candidates_headers import headers
from candidates_lint import references, special, told
from candidates_metadata import metadata
from candidates_payloads import payloads
from candidates_repairs import repairs
from candidates_writer import writer_calls
from overlay import written

from i2s_spec.testing.sample import Draft


def _lint() -> Candidates:
    yield from special()
    yield from small_malformed()
    yield from references()
    yield from payloads()
    yield from metadata()
    yield from headers()
    yield from told()
    for name, data in small_malformed()[::2]:  # the same beside what runtimes say
        parsed = with_settings(data, runtimes=True)
        if parsed is not None:
            yield f"{name}-runtimes", parsed
    for form in ("html", "markdown", "github", "sarif", "junit", "concise"):
        for name, data in small_malformed()[::20]:
            parsed = with_settings(data, format=form)
            if parsed is not None:
                yield f"{name}-{form}", parsed


def _round_trips() -> Candidates:
    yield from repairs()
    yield from small_malformed()
    yield from list(payloads())[::3]
    yield from list(metadata())[::4]
    for number, (name, data) in enumerate([*small_malformed(), ("sound", Draft().data), ("big", Draft("big").data)]):
        for more in ({"name": "x"}, {"keep_unknown": True}, {"keep_unknown": True, "drop_template": True}, {"scrub_tail": True}, {"dialect": "interleave-64"},
                     {"dialect": "rows-1x4"}, {"select": ["G"]}, {"ignore": ["G", "M"]}, {"dialect": "odd"}, {"select": ["odd"]}):  # fmt: skip
            made = (
                with_settings(data, **more) if (number + len(str(more))) % 10 == 0 or name in ("sound", "big") else None
            )
            if made is not None:
                yield f"{name}-{'-'.join(more)}-{len(str(more))}", made
    for arch in ("llama", "bitnet-b1.58", "bitnet", "qwen3", "gemma3", "bitnet-25"):
        for more in (
            {},
            {"name": "x"},
            {"dialect": "interleave-64"},
            {"drop_template": True},
            {"keep_unknown": True},
            {"big_endian": True},
        ):
            yield f"{arch}-{'-'.join(more)}", written({"base": arch, **more})
            yield (
                f"{arch}-odd-{'-'.join(more)}",
                written(
                    {"base": arch, **more},
                    [text_key("general.name", "n\x1b\udcff"), texts_key("general.tags", "a\x07"), number_key("odd", 3)],
                ),
            )


def _container() -> Candidates:
    yield from ((name, data) for name, data in small_malformed() if not data.startswith(b"fuzz"))
    yield from headers()


def _payload() -> Candidates:
    contents = (b"\x15", b"\x00\x55\xaa", b"\xff", b"\x1b", b"\x6a\x59", b"\0", b"\0\0\x80\x3f", b"\0\0\x80\x3f\0\0\x80\xbf", b"\0\x3c\0\xbc", b"\x80\x3f\x80\xbf\0\0",
                struct.pack("<4f", 1e-7, 0.5, -0.5, 2.0), struct.pack("<3f", float("nan"), 1.0, float("inf")), b"\x2b" * 64 + b"\0\x3c", Random(2).randbytes(66),
                struct.pack("<2f", 1e-8, -1e-8), b"\x15" * 52 + b"\0\x3c" * 2 + b"\x15" * 12)  # fmt: skip
    chance = Random("payload")
    for number, content in enumerate(contents):
        for head in (
            (0, 0, 9, 12, 0, 0, 80, 0),
            (0, 5, 19, 12, 0, 16, 80, 0),
            (2, 0, 17, 2, 0, 1, 64, 0),
            (0, 0, 8, 0, 0, number % 5, 3, 0),
            (0, 0, 1, 0, 0, 4, 0, 0),
        ):
            yield f"large-{number}-{head[2]}-{head[5]}", bytes(head) + content
    for i in range(1200):
        task = i % 5
        head = bytes((chance.randrange(40), chance.randrange(40), chance.choice((0, 1, 2, 4, 8, 17)), chance.choice((0, 1, 2, 4, 5, 7, 9, 11, 12, 15)), chance.randrange(256),
                      chance.randrange(16), chance.choice((0, 0, 1, 2, 4, 5, 9, 13, 16, 32, 48, 64, chance.randrange(256))), task))  # fmt: skip
        yield f"task-{task}-{i}", head + chance.choice(contents) * chance.choice((1, 1, 3))


CANDIDATES: dict[str, Callable[[], Candidates]] = {
    "lint": _lint, "round_trips": _round_trips, "container": _container, "payload": _payload, "golden_compare": comparisons, "writer": writer_calls, "command_line": command_lines,
}  # fmt: skip
