"""This module makes candidates whose keys, templates and vocabularies are odd."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

from candidates_build import Candidates, made_tensor, number_key, text_key, texts_key
from overlay import written

from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import array, i2s_bytes, key_value

TEMPLATES = (
    "{{ messages }}", "{% for m in messages %}{{ m.content }}{% endfor %}", "{{ ''.__class__.__mro__ }}", "{%- if x -%}{% endif %}",
    "{# comment #}{{ x|attr('__globals__') }}", "{{ x['__class__'] }}", "{% include 'x' %}", "{% import 'os' as o %}", "{{ 'a' ~ \"b\" }}",
    "{% raw %}{{ x.__class__ }}{% endraw %}", "{{", "{%", "{#", "{{ 'unclosed }}", "{{ x }}" * 300, "{% set a = range(999999999) %}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}", "{{ x | join('__cl' 'ass__') }}", "{% macro f() %}{% endmacro %}",
    "{{ \"\\x5f\\x5fclass\\x5f\\x5f\" }}", "{{ lipsum.__globals__ }}", "{{ '%c%c' % (95, 95) }}", "{% for i in range(10**9) %}{% endfor %}",
    "{{ 9 ** 9 ** 9 }}", "{{ ('a' * 10000000) }}", "<script>alert(1)</script>", "\x1b[2J\u202e", "{{ raise_exception('x') }}",
    "{{ x.__init__ }} {{ y['\\u005f_globals__'] }}", "plain text", "{{ x[ '__' ~ 'class' ~ '__' ] }}", "{% while x %}{% endwhile %}", "", " ",
    "{{ a.b.c['d'](1)[2] | e(3) is f and not g or h in i if j else k }}", "{{ {'a': [1, 2.5, none, true]} }}", "{{ 'a' * 99999999999 }}",
    "{{ [1] * 99999999 }}", "{{ 2 ** 99999 }}", "{{ range(0, 10, 2) | list }}", "{{ '{:>999999999}'.format(1) }}", "{{ x.format(y) }}",
    "{{ x|format(y) }}", "{{ x % y }}", "{{- x -}}\n{%- y +%}", "{{ 'it''s' }}", "{{ r'a' }}", "{{ x._private }}", "{{ self.__dict__ }}",
    "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}", "{% do x %}", "{{ $ }}", "{{ ? }}", "{{ 1_000.5e3 }}", "{{ 0x1f }}", "{{ x|map(attribute='__class__') }}",
)  # fmt: skip


def metadata() -> Candidates:
    """Keys of a model with other values, types and texts."""
    for i, text in enumerate(TEMPLATES):
        yield f"template-{i}", written({"base": "llama"}, [text_key("tokenizer.chat_template", text)])
        yield f"alone-template-{i}", written({}, [text_key("tokenizer.chat_template", text)])
    yield (
        "templates-named",
        written(
            {"base": "llama"},
            [
                texts_key("tokenizer.chat_templates", "tool_use", "rag"),
                text_key("tokenizer.chat_template.rag", "{{ x.__class__ }}"),
            ],
        ),
    )
    values: dict[str, tuple[Any, ...]] = {
        "general.architecture": ("bitnet", "BitNet-b1.58", "qwen2", "", "clip", "foo", "bitnet-25", "llama"), "general.type": ("adapter", "mmproj", "model", "vocab"),
        "general.name": ("\x1b[2J", "", "name\n", "\udcff", "x" * 300, "https://x.y/", "\u202e"), "general.description": ("<script>", "run: curl x | sh", "http://a.b"),
        "general.file_type": (0, 1, 36, 38, 40, 41, 999), "general.quantization_version": (0, 1, 3), "split.count": (3, 1), "split.no": (1, 7),
        "tokenizer.ggml.model": ("hf", "llama", "gpt2", "no_vocab", "bert", "t5"), "tokenizer.ggml.pre": ("llama-bpe", "default", "falcon", "odd"),
        "tokenizer.ggml.eos_token_id": (0, 271, 272, 10**9), "tokenizer.ggml.bos_token_id": (1, 5000), "tokenizer.ggml.padding_token_id": (2, 9999),
        "{arch}.block_count": (0, 2, 200, 1000), "{arch}.embedding_length": (0, 100, 256, 1 << 30), "{arch}.feed_forward_length": (0, 256, 100),
        "{arch}.attention.head_count": (0, 3, 4, 1 << 20), "{arch}.attention.head_count_kv": (0, 3, 4), "{arch}.context_length": (0, 1, 1 << 31),
        "{arch}.rope.dimension_count": (0, 3, 16, 4096), "{arch}.vocab_size": (0, 1, 272, 999), "{arch}.expert_count": (8,), "{arch}.pooling_type": (0, 1, 3, 99),
        "{arch}.attention.key_length": (16, 64), "{arch}.attention.value_length": (16, 64), "{arch}.attention.sliding_window": (0, 16),
        "{arch}.hidden_activation": ("relu2", "silu", "odd", "gelu"), "{arch}.rope.scaling.type": ("linear", "yarn", "odd", "none"),
        "{arch}.tensor_data_layout": ("Meta AI original pth", "odd"), "general.base_model.count": (1,), "tokenizer.ggml.add_bos_token": (),
    }  # fmt: skip
    architectures = ("llama", "bitnet-b1.58", "bitnet", "qwen3", "gemma3", "bitnet-25")
    for number, arch in enumerate(architectures):
        for key, choices in list(values.items())[number % 3 :: 3] if number > 1 else values.items():
            name = key.replace("{arch}", arch)
            for value in choices[number % 2 :: 2] if number else choices:
                pair = text_key(name, value) if isinstance(value, str) else number_key(name, value)
                yield f"{arch}-{key.rpartition('.')[2]}-{choices.index(value)}", written({"base": arch}, [pair])
            yield f"{arch}-no-{key.rpartition('.')[2]}", written({"base": arch, "without": [name]})
            yield (
                f"{arch}-other-{key.rpartition('.')[2]}",
                written(
                    {"base": arch},
                    [text_key(name, "7") if choices and isinstance(choices[0], int) else number_key(name, 7)],
                ),
            )
            yield (
                f"{arch}-list-{key.rpartition('.')[2]}",
                written({"base": arch}, [key_value(name.encode(), ValueType.ARRAY, array(ValueType.UINT32, [1, 2]))]),
            )
        for key in (
            "rope.freq_base",
            "attention.layer_norm_rms_epsilon",
            "attention.scale",
            "rope.scaling.factor",
            "rope.scale_linear",
        ):
            for i, value in enumerate(
                () if number > 1 else (0.0, -1.0, 1e-6, 1e-5, 10000.0, 500000.0, float("nan"), float("inf"), 1e30)
            ):
                yield (
                    f"{arch}-{key.rpartition('.')[2]}-{i}",
                    written({"base": arch}, [key_value(f"{arch}.{key}".encode(), ValueType.FLOAT32, value)]),
                )
            yield f"{arch}-no-{key.rpartition('.')[2]}", written({"base": arch, "without": [f"{arch}.{key}"]})
        for runtimes in (True, False):
            yield f"{arch}-sound-{runtimes}", written({"base": arch, "runtimes": runtimes})
            yield f"{arch}-big-{runtimes}", written({"base": arch, "runtimes": runtimes, "big_endian": True})
        for name in ("output.weight", "token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "blk.0.attn_norm.weight",
                     "blk.0.attn_sub_norm.weight", "blk.0.ffn_sub_norm.weight", "blk.0.attn_q_norm_in.weight", "rope_freqs.weight"):  # fmt: skip
            yield (
                f"{arch}-without-{name.removesuffix('.weight')}",
                written({"base": arch, "without": [name], "runtimes": True}),
            )
            for kind, ne in (
                ()
                if number > 1
                else (
                    ("F16", (128, 128)),
                    ("I2_S", (128, 272)),
                    ("F32", (128,)),
                    ("I2_S", (128,)),
                    ("F32", (64,)),
                    ("F16", (128,)),
                    ("Q6_K", (256, 272)),
                )
            ):
                yield (
                    f"{arch}-{name.removesuffix('.weight')}-{kind}-{ne[-1]}".lower(),
                    written({"base": arch, "runtimes": True}, [], [made_tensor(name, ne, kind, i2s_bytes(64))]),
                )
    tokens = ["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(60))]
    sets = {
        "tokens": tokens, "twice": [*tokens, "t1"], "empty": [*tokens, ""], "bytes": [f"<0x{i:02X}>" for i in range(256)], "odd-byte": [*tokens, "<0xZZ>", "<0x1>"],
        "dummies": [*tokens, *(f"[PAD{i}]" for i in range(40))], "hostile": ["\x1b[2J", "\u202e", "<|im_start|>"], "none": [], "one": ["a"], "long": ["x" * 900, "b"],
    }  # fmt: skip
    for name, texts in sets.items():
        for arch in ("llama", "bitnet"):
            for kinds in (None, [1] * len(texts), [7, *[1] * (len(texts) - 1)], [3, 6, -1]):
                keys = [texts_key("tokenizer.ggml.tokens", *texts)]
                if kinds is not None:
                    keys.append(key_value(b"tokenizer.ggml.token_type", ValueType.ARRAY, array(ValueType.INT32, kinds)))
                yield (
                    f"{arch}-vocabulary-{name}-{0 if kinds is None else len(kinds)}-{kinds[0] if kinds else 0}",
                    written({"base": arch}, keys),
                )
    for name, merges in {
        "pairs": ["a b", "b c"],
        "odd": ["a", "a b c", ""],
        "unknown": ["zz yy"],
        "twice": ["a b", "a b"],
    }.items():
        yield f"merges-{name}", written({"base": "llama"}, [texts_key("tokenizer.ggml.merges", *merges)])
    scores = key_value(b"tokenizer.ggml.scores", ValueType.ARRAY, array(ValueType.FLOAT32, [float("nan"), 1.0, 2.0]))
    yield "scores", written({"base": "bitnet"}, [scores])
    fields = [text_key(f"odd.key{i}", "v") for i in range(30)]
    yield "many-unknown", written({"base": "llama"}, fields)
