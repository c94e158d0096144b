"""This module makes candidates for what the linter is told beside the file, and for what is rare."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

import struct
from itertools import product

from candidates_build import (
    CODES,
    TAIL,
    Candidates,
    made_tensor,
    number_key,
    small_malformed,
    text_key,
    texts_key,
    with_settings,
)
from overlay import written

from i2s_spec.linter.profile import PROFILES
from i2s_spec.linter.report import FORMATS
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info


def told() -> Candidates:
    """A few files under every profile, reading and form of report."""
    rich = [text_key("general.name", "n\x1b\u202e<b>"), texts_key("odd", "a")]
    bases = {"sound": [], "rich": rich, "hostile": [text_key("tokenizer.chat_template", "{{ x.__class__ }}")]}
    for number, ((name, keys), profile, form) in enumerate(product(bases.items(), PROFILES, FORMATS)):
        if number % 4 == 0:
            runtimes = number % 8 == 0
            yield (
                f"{form}-{profile}-{name}-{runtimes}",
                written({"base": "llama", "profile": profile, "format": form, "runtimes": runtimes}, keys),
            )
    for form, (reading, threads) in zip(FORMATS, product(("full", "sample", "none"), (1, 2, 0)), strict=True):
        yield (
            f"{form}-{reading}-{threads}",
            written({"base": "bitnet", "payload": reading, "format": form, "threads": threads}),
        )
    odd: dict[str, list[list[str]]] = {
        "select": [["G"], ["I104"], ["nothing"], ["g101", "M"], []], "ignore": [["G"], ["P", "T"], ["odd"]], "severity": [["G=note"], ["M=error"], ["P1=odd"], ["odd=error"]],
        "excused": [["M=because"], ["G=x", "P=y"], ["odd=z"]], "limits": [["findings=1"], ["keys=1"], ["tensors=1"], ["odd=1"], ["usual-keys=1", "usual-tensors=1"], ["usual-alignment=8", "alignment=64"]],
    }  # fmt: skip
    for name, lists in odd.items():
        for i, given in enumerate(lists):
            for form in (("text", "json"), ("html", "junit"), ("github", "markdown"), ("sarif", "concise"))[i % 4]:
                yield f"{name}-{i}-{form}", written({"base": "llama", name: given, "format": form}, rich)
    for name in (
        "model.gguf",
        "model-00001-of-00003.gguf",
        "model-00002-of-00002.gguf",
        "x-00009-of-00003.gguf",
        "MODEL.GGUF",
        "odd.bin",
        "ggml-model-i2_s.gguf",
        "a\u202eb.gguf",
    ):
        yield (
            f"named-{name.encode('ascii', 'replace').decode().replace('?', '_')}",
            written({"base": "llama", "name": name, "runtimes": True}),
        )
        yield (
            f"split-{name.encode('ascii', 'replace').decode().replace('?', '_')}",
            written(
                {"base": "llama", "name": name},
                [
                    number_key("split.no", 0, ValueType.UINT16),
                    number_key("split.count", 3, ValueType.UINT16),
                    number_key("split.tensors.count", 9, ValueType.INT32),
                ],
            ),
        )
    for size in (0, 3, 100, 50_000, 116_000, 200_000, 1 << 20):
        for form in ("html", "text", "json"):
            yield f"cut-to-{size}-{form}", written({"base": "llama", "size": size, "format": form})
            yield f"hole-{size}-{form}", written({"base": "bitnet", "size": size, "format": form, "name": "x.gguf"})
    zeros = [made_tensor("blk.0.ffn_up.weight", (256, 1024), "I2_S", bytes(64) + bytes(32))]
    yield (
        "hole-in-a-tensor",
        written({"base": "", "name": "x.gguf", "format": "html"}, [text_key("general.architecture", "sample")], zeros),
    )
    yield (
        "hole-at-the-end",
        written({"base": "", "name": "x.gguf", "size": 300_000}, [text_key("general.architecture", "sample")], zeros),
    )


def references() -> Candidates:
    """Files beside references of every form."""
    forms = ("gguf-I2_S", "gguf-F32", "gguf-F16", "gguf-F64", "gguf-TQ2_0", "gguf-interleave-64", "gguf-rows-1x4", "safetensors-F32", "safetensors-BF16", "safetensors-I32",
             "packed", "folder", "npy", "broken")  # fmt: skip
    changed = ([], ["negated"], ["checkpoint-rows"], ["gguf-rows"], ["noise"], ["other"], ["some"], ["scale"], ["short"], ["nan"], ["nothing"], ["modules"], ["named"],
               ["multiply"], ["divide", "noise"], ["divide"])  # fmt: skip
    for number, (form, changes) in enumerate(product(forms, changed)):
        arch = ("llama", "qwen3", "bitnet-b1.58", "llama")[number % 4]
        if form in ("gguf-I2_S", "safetensors-F32", "packed", "gguf-F32") or number % 5 == 0:
            yield (
                f"reference-{form}-{'-'.join(changes)}",
                written({"base": arch, "profile": "default", "reference": [form, *changes]}),
            )
    for more in (
        {"dialect": "interleave-64"},
        {"expected": "interleave-64"},
        {"dialect": "odd"},
        {"expected": "row-blocks-4"},
        {"payload": "none"},
        {"payload": "sample"},
        {"threads": 2},
    ):
        for form in ("gguf-interleave-64", "safetensors-F32", "gguf-I2_S"):
            yield (
                f"reference-{form}-{'-'.join(map(str, more.values()))}",
                written({"base": "llama", "profile": "default", "reference": [form], **more}),
            )
    for name, data in small_malformed()[::30]:
        made = with_settings(data, reference=["gguf-I2_S"], profile="default")
        if made is not None:
            yield f"reference-{name}", made
    for piece in (CODES[:300], b"\x15" * 40, bytes(40)):
        for kind, name in (("I2_S", "blk.0.attn_q.weight"), ("F16", "blk.0.attn_k.weight"), ("I2_S", "odd.weight")):
            tensor = made_tensor(name, (128, 128), kind, piece + TAIL)
            yield (
                f"reference-{name}-{kind}-{piece[:1].hex()}",
                written({"base": "llama", "profile": "default", "reference": ["gguf-I2_S"]}, [], [tensor]),
            )


def special() -> Candidates:
    """What is rare: long runs, vocabularies alone, files that go away, odd rooms, other dialects."""
    codes, arch = CODES[:300] + TAIL, [text_key("general.architecture", "sample")]
    for ne in ((1024, 64), (1024, 4096)):
        size, tensor = ne[0] * ne[1] // 4, made_tensor("blk.0.ffn_up.weight", ne, "I2_S", codes)
        for name, fill in {"zeros": [f"-{size}:5000:0"], "fives": [f"-{size}:5000:85"], "ones": [f"-{size}:5000:255"], "end": ["-2080:2048:0"], "near-end": ["-6032:6000:0"], "most": [f"-{size - 100}:{size - 200}:0"],
                           "tail": ["-32:32:0"], "two": [f"-{size}:5000:0", "-9000:5000:0"], "two-kinds": [f"-{size}:5000:85", "-9000:5000:0"], "middle": [f"-{size * 3 // 4}:{size // 2}:0"]}.items():  # fmt: skip
            for more in ({}, {"payload": "none"}, {"payload": "sample"}, {"name": "x.gguf"}, {"format": "html"}):
                if not more or name in ("zeros", "near-end", "middle", "most"):
                    yield (
                        f"special-run-{name}-{ne[1]}-{'-'.join(map(str, more.values()))}",
                        written({"base": "", "fill": fill, **more}, arch, [tensor]),
                    )
    for kind in ("F32", "F16", "BF16", "Q8_0", "Q6_K"):
        floats = made_tensor(
            "blk.0.ffn_up.weight",
            (1024, 512 if kind == "F32" else 1024),
            kind,
            b"\0\0\x80\x3f" if kind == "F32" else b"\x80\x3f",
        )
        for name, fill in {
            "zeros": ["-1800000:1200000:0"],
            "all": ["-2000000:2000000:0"],
            "nan": ["-4096:8:255"],
            "both": ["-1800000:1200000:0", "-4096:8:255"],
            "twice": ["-4096:8:255", "-8192:8:255"],
        }.items():
            for form in ("html", "text"):
                yield (
                    f"special-other-{kind}-{name}-{form}".lower(),
                    written({"base": "", "fill": fill, "format": form}, arch, [floats]),
                )
    for name in ("llama", "bitnet-b1.58", "bitnet", "qwen3", "gemma3", "bitnet-25", "qwen2", "starcoder", "odd", ""):
        for more in (
            {"bare": True},
            {"bare": True, "without": ["tokenizer.ggml.model"]},
            {"bare": True, "without": ["tokenizer.ggml.merges"]},
            {"bare": True, "without": ["tokenizer.ggml.tokens"]},
        ):
            keys = [text_key("general.architecture", name)]
            yield (
                f"special-vocabulary-{name}-{len(more)}-{str(more.get('without', ''))[-8:-2]}",
                written({"base": name if name in ("bitnet", "gemma3") else "llama", "runtimes": True, **more}, keys),
            )
    yield (
        "special-vocabulary-typed",
        written({"base": "llama", "runtimes": True, "bare": True}, [text_key("llama.block_count", "x")]),
    )
    yield (
        "special-vocabulary-hf",
        written({"base": "llama", "runtimes": True, "bare": True}, [text_key("tokenizer.ggml.model", "hf")]),
    )
    for left in (0, 3, 9, 20, 60, 150):
        for more in ({"base": "llama"}, {"base": "bitnet", "format": "html"}, {"base": "qwen3", "runtimes": True}):
            yield f"special-vanishes-{left}-{more['base']}", written({"vanishes": left, **more})
        yield f"special-vanishes-{left}-alone", written({"vanishes": left})
    for dialect in (
        "interleave-64",
        "rows-1x4",
        "interleave-128/zero-first",
        "sequential-msb",
        "odd",
        "interleave-128/twos-complement",
        "canonical",
    ):
        for name in ("llama", "bitnet-b1.58"):
            yield (
                f"special-dialect-{dialect.replace('/', '-')}-{name}",
                written({"base": name, "dialect": dialect, "runtimes": True}),
            )
    sound = Draft()
    for width, form in ((4, "<f"), (2, "<e")):
        for scale in (0.5, 1e30 if width == 4 else 60000.0):
            rows = b"".join(struct.pack(form, scale) + CODES[i : i + 32] for i in range(64))
            file = sound.records()
            file.tensor_infos, file.data = [tensor_info(b"rows", (128, 64), BY_NAME["I2_S"].number, 0)], rows
            yield f"special-rows-{width}-{scale:g}", sound.built(file)
            file.tensor_infos[0].offset, file.data = 32, bytes(32) + rows[:2000]
            yield f"special-rows-{width}-{scale:g}-cut", sound.built(file)
    for name in ("bitnet2b", "bitnet2b_2501"):
        yield f"special-name-{name}", written({"base": "bitnet-b1.58"}, [text_key("general.name", name)])
        yield (
            f"special-name-{name}-bare",
            written({"base": "bitnet-b1.58", "bare": True}, [text_key("general.name", name)]),
        )
        yield f"special-name-{name}-other", written({"base": "bitnet-25"}, [text_key("general.name", name)])
    for i, text in enumerate(("{# never ends", "{% raw %} never ends", "{{ range(2 ** 30) }}{% for i in range(2**30) %}{% endfor %}", "{% for i in range(9*9*9*9*9*9) %}{% endfor %}", "{% for i in range(10 + 5 * 3) %}{% endfor %}",
                              "{% for i in range(x * 2) %}{% endfor %}", "{% for i in range(1+1+1+1+1+1+1+1) %}x{% endfor %}", "{{ 'a'.__class__ }}{{ __import__('os') }}", "{{ '" + "Please do this now. " * 10 + "' }}",
                              "{% raw %}{% endraw %}", "{%- raw -%} x {%- endraw -%}", "{{ 'x' * 10 ** 9 }}", "{{ 10 ** 9 * 'x' }}", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "{{ x * y ** 9 }}",
                              "{{ (1, 2)[0] }}{{ not x }}{{ x if y }}", "{{ QUJD" + "QUJDREVGR0g" * 30 + " }}", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0NTY3ODkrLw" * 12)):  # fmt: skip
        yield (
            f"special-template-{i}",
            written(
                {"base": ""}, [text_key("general.architecture", "sample"), text_key("tokenizer.chat_template", text)]
            ),
        )
        yield (
            f"special-text-{i}",
            written({"base": ""}, [text_key("general.architecture", "sample"), text_key("general.description", text)]),
        )
    yield (
        "special-tokenizer-json",
        written(
            {"base": "llama"}, [text_key("tokenizer.huggingface.json", '{"model": "' + "QUJDREVGR0hJSktM" * 40 + '"}')]
        ),
    )
    for more in (
        {"format": "text"},
        {"format": "html"},
        {"format": "junit"},
        {"format": "github"},
        {"format": "markdown"},
        {"format": "sarif"},
        {"format": "concise"},
    ):
        yield (
            f"special-elided-{more['format']}",
            written(
                {"base": "", "profile": "default", "limits": ["findings=1"], **more},
                [text_key(f"odd\n{i}", "v") for i in range(6)],
            ),
        )
        yield (
            f"special-excused-{more['format']}",
            written(
                {"base": "", "profile": "default", "excused": ["M=because", "G=because", "S=x", "P=y"], **more},
                [text_key(f"odd\n{i}", "v") for i in range(3)],
            ),
        )
    yield (
        "special-slugs",
        written({"base": "llama", "select": ["not-gguf", "tail-missing"], "ignore": ["no-architecture"]}),
    )
    for name, threads, payload in (("x.gguf", 0, "full"), ("y.gguf", 1, "odd"), ("z.gguf", 1, "full")):
        yield (
            f"special-checked-{threads}-{payload}",
            written({"base": "llama", "name": name, "threads": threads, "payload": payload, "excused": ["P=because"]}),
        )
        yield (
            f"special-checked-{threads}-{payload}-reference",
            written(
                {
                    "base": "llama",
                    "name": name,
                    "threads": threads,
                    "payload": payload,
                    "reference": ["safetensors-F32", "some"],
                }
            ),
        )
    records = Draft().records()
    deep = array(
        ValueType.ARRAY,
        [
            array(ValueType.ARRAY, [array(ValueType.UINT8, []), array(ValueType.STRING, [b"a"])]),
            array(ValueType.ARRAY, []),
        ],
    )
    records.key_values = [
        key_value(b"deep", ValueType.ARRAY, deep),
        key_value(b"minus", ValueType.INT32, -5),
        key_value(b"many", ValueType.ARRAY, array(ValueType.STRING, [b""] * 9)),
        *records.key_values,
    ]
    nested = Draft().built(records)
    for cut in range(24, len(nested), 9):
        yield f"special-nested-cut-{cut}", nested[:cut]
    at = nested.index(b"sample.numbers") + 14
    for kind in (13, 14, 255):
        for more in (b"", b"x"):
            yield (
                f"special-nested-kind-{kind}-{len(more)}",
                nested[:at] + kind.to_bytes(4, "little") + nested[at + 4 :] + more,
            )
    one = (
        b"GGUF"
        + struct.pack("<III", 1, 1, 1)
        + struct.pack("<I", 1)
        + b"k"
        + struct.pack("<II", 4, 7)
        + struct.pack("<I", 1)
        + b"t"
        + struct.pack("<IIIQ", 1, 8, 0, 0)
    )
    for more in (b"", bytes(64), bytes(65)):
        yield f"special-version-1-{len(more)}", one + more
    for number, data in enumerate(
        (one[:-9], one[:20], nested.replace(b"GGUF\3", b"GGUF\1", 1), nested.replace(b"GGUF\3", b"GGUF\x07", 1))
    ):
        yield f"special-version-odd-{number}", data
        yield f"special-version-odd-{number}-other", data + b"\0"
