"""This module makes candidates for comparisons: programs that describe a dump, and files of dumps."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

import io
import json
import struct
import zipfile
from itertools import product
from random import Random

from candidates_build import Candidates

from i2s_spec.golden.mistakes import MISTAKES


def comparison(model: int = 0, tokens: int = 2, kept: int = 0, mistake: int = 0, changes: tuple[tuple[int, ...], ...] = (), form: tuple[int, ...] = (0,), mode: int = 1,
             loaded: int = 1, profile: int = 0, prefix: int = 0, diagnose: int = 0, progress: int = 0, damage: int = 0) -> bytes:  # fmt: skip
    """A comparison as `dumped` describes it."""
    held = [128, model, tokens, kept, mistake]
    for change in changes:
        held += change
    return bytes((*held, 0, *form, mode, loaded, profile, prefix, diagnose, progress, damage))


EVERY = (0, 0)  # of a change: all taps


def dumps() -> Candidates:
    """Files of dumps, odd in one place."""

    def npy(header: str, data: bytes = bytes(16), version: bytes = b"\1\0", length: int | None = None) -> bytes:
        size = len(header) if length is None else length
        return b"\x93NUMPY" + version + size.to_bytes(2 if version == b"\1\0" else 4, "little") + header.encode() + data

    def npz(**members: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name.replace("__", ".")), data)
        return out.getvalue()

    about = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n"
    arrays = {
        "plain": npy(about), "version-2": npy(about, version=b"\2\0"), "version-3": npy(about, version=b"\3\0"), "version-9": npy(about, version=b"\x09\0"), "long": npy(about, version=b"\2\0", length=1 << 20),
        "odd-header": npy("{'descr'"), "object": npy(about.replace("<f4", "|O")), "text": npy(about.replace("<f4", "<U4")), "big": npy(about.replace("<f4", ">f4")), "fortran": npy(about.replace("False", "True")),
        "short": npy(about, bytes(3)), "negative": npy(about.replace("(2, 2)", "(-2, -2)")), "huge": npy(about.replace("(2, 2)", "(2, 1000000000000)")), "integers": npy(about.replace("<f4", "<i4")),
        "booleans": npy(about.replace("<f4", "|b1"), bytes(4)), "half": npy(about.replace("<f4", "<f2"), bytes(8)), "wide": npy(about.replace("<f4", "<f8"), bytes(32)), "complex": npy(about.replace("<f4", "<c8"), bytes(32)),
        "empty": npy(about.replace("(2, 2)", "(0, 2)"), b""), "nothing": b"\x93NUMPY", "scalar": npy(about.replace("(2, 2)", "()"), bytes(4)),
    }  # fmt: skip
    for name, data in arrays.items():
        yield f"npy-{name}", b"\x02" + data
        yield f"npz-{name}", b"\x00" + npz(**{"Qcur-0__npy": data})
    yield "npz-other-member", b"\x00" + npz(readme__txt=b"x", l_out__npy=arrays["plain"])
    yield "npz-no-member", b"\x00" + npz()
    yield "npz-cut", b"\x00" + npz(l_out__npy=arrays["plain"])[:-30]
    damaged = bytearray(npz(l_out__npy=arrays["plain"]))
    damaged[60] ^= 255
    yield "npz-damaged", b"\x00" + bytes(damaged)
    for kind, width in (
        ("F32", 4),
        ("BF16", 2),
        ("F16", 2),
        ("F64", 8),
        ("U16", 2),
        ("BOOL", 1),
        ("I64", 8),
        ("U8", 1),
        ("F8_E4M3", 1),
        ("odd", 4),
    ):
        head = json.dumps({"Qcur-0": {"dtype": kind, "shape": [2, 2], "data_offsets": [0, 4 * width]}}).encode()
        yield f"safetensors-{kind}".lower(), b"\x01" + struct.pack("<Q", len(head)) + head + bytes(4 * width)
    for size in (0, 3, 4, 64):
        yield f"bin-{size}", b"\x04" + b"\x01" * size
    yield "text-nul", b"\x03ab\0cd"
    yield "text-nothing", b"\x03plain words\n"
    node = "ggml_debug: Qcur-0 = (f32) MUL_MAT(a{1, 1, 1, 1}, b{1, 1, 1, 1}}) = {2, 2, 1, 1}\n [\n  [\n   [ 1.0, 2.0 ],\n   [ 3.0, nan ],\n  ],\n ]\n sum = 6.0\n"
    for name, text in {"node": node, "twice": node * 2, "odd-number": node.replace("1.0", "1.0.0"), "huge": node.replace("{2, 2, 1, 1}", "{99999999, 99999999, 1, 1}"), "large": node.replace("{2, 2, 1, 1}", "{99999, 99999, 1, 1}"), "no-sum": node.replace("sum", "mus"),
                       "odd-sum": node.replace("6.0", "x"), "zero": node.replace("{2, 2,", "{0, 2,"), "few": node.replace("2.0", ""), "many": node.replace("1.0,", "1.0, " * 3000)}.items():  # fmt: skip
        yield f"text-{name}", b"\x03" + text.encode()


def comparisons() -> Candidates:
    yield from dumps()
    chance = Random("golden")
    for i in range(len(MISTAKES) + 1):
        for mode in (1, 2, 3) if i % 6 == 0 else (1,):
            yield (
                f"mistake-{i}-mode-{mode}",
                comparison(
                    chance.choice((0, 1, 2, 3, 4, 6)),
                    chance.choice((0, 2, 3, 4)),
                    0,
                    i,
                    mode=mode,
                    loaded=chance.choice((1, 2)),
                ),
            )
    for i in range(10):
        for mode, kept in ((1, 0), (2, 0), (3, 1)):
            yield f"numbers-{i}-mode-{mode}", comparison(i % 5, 0, kept, 200 + i, mode=mode, progress=1)
            yield f"profile-{i}-mode-{mode}", comparison(i % 5, 0, kept, 0, mode=mode, profile=i)
            yield f"numbers-{i}-profile-{mode}", comparison(0, 0, kept, 200 + (i + 1) % 10, mode=mode, profile=i)
    for i in range(9):
        for what in (15, 16):
            for mode in (1, 2, 3):
                yield (
                    f"set-{what}-{i}-{mode}",
                    comparison(
                        chance.choice((0, 1, 2, 3, 6, 7)),
                        0,
                        0,
                        chance.choice((0, 0, 2, 47, 201, 203)),
                        ((what, *EVERY, i),),
                        mode=mode,
                    ),
                )
    for kind in range(10):
        for mode in (1, 2, 3):
            yield (
                f"kind-{kind}-{mode}",
                comparison(
                    chance.choice((0, 1, 2)),
                    0,
                    0,
                    chance.choice((0, 0, 201)),
                    ((9, *EVERY, kind),),
                    mode=mode,
                    form=(0,),
                ),
            )
    yield "brain", comparison(0, 0, 0, 0, form=(1, 7))
    yield "brain-forced", comparison(1, 0, 0, 0, form=(1, 7), mode=2)
    yield "brain-wrong", comparison(1, 0, 0, 47, form=(1, 7), mode=1)
    for shape in range(10):
        for which in (0, 3, 7, 12):
            yield f"shape-{shape}-{which}", comparison(0, 3, 0, 0, ((8, which, 0, shape),), mode=1)
    for what in (5, 6, 7, 10, 11, 12, 13, 14):
        for which in (0, 4, 9, 14, 20):
            for choice in range(0, 6, 2):
                yield (
                    f"change-{what}-{which}-{choice}",
                    comparison(
                        chance.choice((0, 1, 2, 4)),
                        chance.choice((0, 3, 4)),
                        0,
                        0,
                        ((what, which, chance.choice((0, 3)), choice, chance.randrange(4)),),
                        mode=chance.choice((1, 1, 2, 3)),
                    ),
                )
    for number, (mode, loaded, tokens) in enumerate(product(range(5), range(6), (0, 1, 5, 6, 7))):
        yield (
            f"mode-{mode}-{loaded}-{tokens}",
            comparison(
                number % 9,
                tokens,
                number % 8,
                0,
                mode=mode,
                loaded=loaded,
                prefix=number % 4,
                diagnose=number % 4,
                progress=number % 2,
            ),
        )
    for form in range(8):
        for more in range(8):
            yield (
                f"form-{form}-{more}",
                comparison(
                    0, 2, 3 if form == 5 else 0, chance.choice((0, 33)), form=(form, more), mode=chance.choice((1, 3))
                ),
            )
    for i in range(40):
        yield (
            f"text-{i}",
            comparison(
                i % 4, 0, 3 + i % 2, chance.choice((0, 33)), form=(5, *chance.randbytes(7)), mode=3, loaded=i % 2
            ),
        )
    for i in range(80):
        changes = tuple(
            (
                1 + chance.randrange(16),
                chance.choice((0, chance.randrange(80))),
                chance.randrange(4),
                chance.randrange(10),
                chance.randrange(10),
            )
            for _ in range(chance.randrange(3))
        )
        yield (
            f"program-{i}",
            comparison(
                chance.randrange(9),
                chance.choice((0, 0, 1, 2, 3, 4)),
                chance.choice((0, 0, 1, 2)),
                chance.choice((0, chance.randrange(52))),
                changes,
                (chance.randrange(8),),
                chance.randrange(4),
                1,
            ),
        )
    for mode, mistake in product((1, 2, 3), (1, 33, 47, 12)):
        yield f"more-undiagnosed-{mode}-{mistake}", comparison(mode=mode, mistake=mistake, diagnose=3)
    for model, tokens, numbers in product((0, 1, 4, 8), (0, 3), (201, 207, 208, 209)):
        yield (
            f"more-flips-{model}-{tokens}-{numbers}",
            comparison(model, tokens, 0, numbers, ((16, 0, 0, 5), (16, 0, 0, 7))),
        )
        yield f"more-flips-sums-{model}-{tokens}-{numbers}", comparison(model, tokens, 0, numbers, ((16, 0, 0, 5),))
    for model, share, seed in product((1, 8), (0, 1), (1, 2, 3)):
        yield (
            f"more-noise-{model}-{share}-{seed}",
            comparison(model, 3, 0, 0, ((11, *EVERY, seed, share), (16, 0, 0, 5), (16, 0, 0, 7))),
        )
    for model, kept, mistake, mode in product((2, 3, 0, 6, 7), (0, 1, 2), (0, 1, 47, 50, 53), (1, 3)):
        yield (
            f"more-far-{model}-{kept}-{mistake}-{mode}",
            comparison(model, 0, 0, mistake, ((15, 0, 0, kept),), mode=mode),
        )
    for share, form, mode in product(range(1, 5), (0, 6), (1, 3)):
        yield (
            f"more-doubtful-{share}-{form}-{mode}",
            comparison(0, 3, 0, 0, ((15, 0, 0, 1), (11, 1, 0, 1, share)), (form,), mode),
        )
        yield (
            f"more-logits-{share}-{form}-{mode}",
            comparison(0, 3, 0, 0, ((11, *EVERY, 1, share),), (form,), mode, loaded=0),
        )
    for which in (3, 9, 20, 30, 60, 80):
        yield f"more-layers-{which}", comparison(7, 0, 0, 0, ((13, which, 3, 0),), mode=1)
        yield f"more-layers-some-{which}", comparison(7, 0, 0, 0, ((13, which, 0, 0), (13, which + 40, 0, 0)), mode=1)
    for size in range(4):
        yield f"more-cut-rows-{size}", comparison(0, 0, 3, 0, form=(5, 0), mode=3, loaded=0, damage=0)
    for share, seed, which in product((0, 6), range(12), (6, 39, 46)):  # attn_norm, ffn_norm, kqv_out
        yield (
            f"again-flips-{share}-{seed}-{which}",
            comparison(8, 3, 0, 0, ((11, which, 0, seed, share), (16, 0, 0, 5), (16, 0, 0, 7))),
        )
    for seed in range(4):
        yield (
            f"again-made-{seed}",
            comparison(8, 3, 0, 0, ((16, 0, 0, 4), (16, 0, 0, 5), (16, 0, 0, 7), (11, 3, 0, seed, 6))),
        )
    for some in ((16, 18), (16, 17), (17, 18), (16, 17, 18), (118, 120), (9, 11), (143, 145), (146, 148)):
        for mode in (1, 2, 3):
            yield (
                f"again-layers-{'-'.join(map(str, some))}-{mode}",
                comparison(7, 0, 0, 0, tuple((13, which, 0, 0) for which in some), mode=mode),
            )
    for model, mistake, mode in product((2, 3, 9), (1, 12, 47, 50), (1, 3)):
        yield (
            f"again-other-{model}-{mistake}-{mode}",
            comparison(model, 0, 0, mistake, ((15, 0, 0, 1),) if model < 9 else (), mode=mode),
        )
    for profile, mistake, mode in product((10, 11), (0, 1, 12, 19, 33), (1, 2, 3)):
        yield f"last-profile-{profile}-{mistake}-{mode}", comparison(0, 2, 0, mistake, profile=profile, mode=mode)
        yield (
            f"last-numbers-{profile}-{mistake}-{mode}",
            comparison(0, 2, 0, 200 + profile, profile=mistake % 10, mode=mode),
        )
    for mistake, mode in product((0, 1, 12, 33, 40, 47, 50), (1, 2, 3)):
        yield f"last-dense-{mistake}-{mode}", comparison(10, 2, 0, mistake, mode=mode)
    for seed, form, mode in product(range(3), (0, 6), (1, 3)):
        yield (
            f"last-doubtful-{seed}-{form}-{mode}",
            comparison(0, 3, 0, 0, ((15, 0, 0, 1), (11, 1, 0, seed, 7)), (form,), mode, loaded=mode % 3),
        )
    row = "ggml_debug: result_output = (f32) MUL_MAT(output.weight{1, 1, 1, 1}, result_norm{1, 1, 1, 1}}) = {272, 1, 1, 1}\n [\n  [\n   [ 1.0, 2.0, 3.0, ..., 4.0, 5.0, 6.0 ],\n  ],\n ]\n sum = 6.0\n"
    yield "last-text-row", b"\x03" + row.encode()
    yield "last-text-padded", b"\x03" + row.replace("272", "300").encode()
    for profile, mistake in product(range(1, 10), (1, 12, 20)):
        yield f"again-profile-{profile}-{mistake}", comparison(0, 0, 0, mistake, profile=profile)
        yield f"again-numbers-{profile}-{mistake}", comparison(0, 2, 0, 200 + mistake % 10, profile=profile, mode=2)
    for damage in range(1, 26):
        yield f"damage-{damage}", comparison(damage=damage)
        yield f"damage-{damage}-free", comparison(mode=3, loaded=damage % 3, damage=damage)
    for n_ctx, vocab, chunks in ((4, 3, 1), (3, 1, 1), (4, 0, 1), (4, 2, -1), (4, 2, 1000), (5, 4, 2), (4, 2, 0)):
        head = b"_logits_" + struct.pack("<3i", n_ctx, vocab, chunks)
        body = (
            4 * n_ctx * max(0, chunks) + 2 * max(0, chunks) * (n_ctx - 1 - n_ctx // 2) * (2 * ((vocab + 1) // 2) + 4)
            if chunks < 100
            else 7
        )
        yield f"base-{n_ctx}-{vocab}-{chunks}", b"\x03" + head + bytes(body)
