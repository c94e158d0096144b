"""The reader of llama.cpp's sources: on a small tree written here, on the shipped table, and on a source distribution."""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
from pathlib import Path

import pytest

from peers.arch_tables import command, sdist
from peers.arch_tables.loader import Loader
from peers.arch_tables.sources import Sources
from peers.arch_tables.syntax import Unread, functions, parsed_expression
from peers.arch_tables.table import Table, as_text, counts, differences, faults, make_table
from peers.arch_tables.values import (
    ONE,
    ZERO,
    HasKey,
    Key,
    Unknown,
    both,
    conditional,
    either,
    negation,
    operation,
    shown,
    unresolved,
)

#: A tree of sources in the form of llama.cpp's, of two architectures.
TREE = {
    "src/llama-arch.cpp": """
        static const std::map<llm_arch, const char *> LLM_ARCH_NAMES = {
            { LLM_ARCH_SMALL, "small" }, { LLM_ARCH_MIXED, "mixed" }, { LLM_ARCH_GONE, "gone" },
        };
        static const std::map<llm_kv, const char *> LLM_KV_NAMES = {
            { LLM_KV_EMBEDDING_LENGTH, "%s.embedding_length" }, { LLM_KV_BLOCK_COUNT, "%s.block_count" },
            { LLM_KV_EXPERT_COUNT, "%s.expert_count" }, { LLM_KV_HEADS, "%s.attention.head_count" },
            { LLM_KV_HEAD_LENGTH, "%s.attention.key_length" },
        };
        static const std::map<llm_tensor, const char *> LLM_TENSOR_NAMES = {
            { LLM_TENSOR_TOKEN_EMBD, "token_embd" }, { LLM_TENSOR_OUTPUT, "output" }, { LLM_TENSOR_ATTN_Q, "blk.%d.attn_q" },
            { LLM_TENSOR_FFN_UP, "blk.%d.ffn_up" }, { LLM_TENSOR_FFN_UP_EXPS, "blk.%d.ffn_up_exps" },
        };
        static const std::map<llm_tensor, llm_tensor_info> INFOS = {
            { LLM_TENSOR_TOKEN_EMBD, { LLM_TENSOR_LAYER_INPUT, GGML_OP_GET_ROWS } },
        };
    """,
    "src/llama-model.cpp": """
        llama_model * create(llm_arch arch) {
            switch (arch) {
                case LLM_ARCH_SMALL: return new llama_model_small(params);
                case LLM_ARCH_MIXED: return new llama_model_mixed(params);
            }
        }
        void llama_model_base::load_hparams(llama_model_loader & ml) {
            ml.get_key(LLM_KV_EMBEDDING_LENGTH, hparams.n_embd);
            ml.get_key(LLM_KV_BLOCK_COUNT, hparams.n_layer_all);
            ml.get_key(LLM_KV_EXPERT_COUNT, hparams.n_expert, false);
            GGML_ASSERT(hparams.n_layer_all > 0); // of the loader
            std::fill(hparams.n_head_arr.begin(), hparams.n_head_arr.end(), 0);
            ml.get_key_or_arr(LLM_KV_HEADS, hparams.n_head_arr, hparams.n_layer_all, false);
            load_arch_hparams(ml);
        }
        bool llama_model_base::load_tensors(llama_model_loader & ml) {
            create_tensor(tn(LLM_TENSOR_ATTN_Q, "scale", i), {1}, TENSOR_NOT_REQUIRED);
        }
    """,
    "src/llama-hparams.cpp": "uint32_t llama_hparams::n_head(uint32_t il) const { if (il < n_layer_all) "
    '{ return n_head_arr[il]; } GGML_ABORT("fatal"); }',
    "src/llama-hparams.h": """
        #define LLAMA_MAX_LAYERS 512
        struct llama_hparams {
            uint32_t n_embd;
            uint32_t n_layer_all;
            uint32_t n_expert = 0;
            uint32_t n_embd_head = 0;
            std::array<uint32_t, LLAMA_MAX_LAYERS> n_head_arr;
        };
    """,
    "src/llama-graph.h": "",
    "include/llama.h": "",
    "src/llama-model.h": "#define LLAMA_LOAD_LOCALS \\\n    const int n_layer = hparams.n_layer_all; \\\n"
    "    const int64_t n_embd = hparams.n_embd;\n",
    "src/llama-model-loader.h": "static const int TENSOR_NOT_REQUIRED = 1 << 0; "
    "static const int TENSOR_DUPLICATED = 1 << 1;",
    "src/llama-vocab.cpp": 'void load() { if (tokenizer_model == "gpt2") { throw error("cannot find tokenizer merges"); } '
    'if (tokenizer_pre == "default") { } }',
    "src/models/models.h": "struct llama_model_small : public llama_model_base {}; "
    "struct llama_model_mixed : public llama_model_small {};",
    "src/models/small.cpp": """
        void llama_model_small::load_arch_hparams(llama_model_loader & ml) {
            ml.get_key(LLM_KV_HEAD_LENGTH, hparams.n_embd_head);
            if (hparams.n_embd_head % 2 != 0) { throw std::runtime_error("odd"); }
        }
        void llama_model_small::load_arch_tensors(llama_model_loader & ml) {
            LLAMA_LOAD_LOCALS;
            tok_embd = create_tensor(tn(LLM_TENSOR_TOKEN_EMBD, "weight"), {n_embd, vocab.n_tokens()}, 0);
            output = create_tensor(tn(LLM_TENSOR_OUTPUT, "weight"), {n_embd, vocab.n_tokens()}, TENSOR_NOT_REQUIRED);
            if (output == nullptr) {
                output = create_tensor(tn(LLM_TENSOR_TOKEN_EMBD, "weight"), {n_embd, vocab.n_tokens()}, TENSOR_DUPLICATED);
            }
            for (int i = 0; i < n_layer; ++i) {
                auto & layer = layers[i];
                const int64_t width = hparams.n_head(i) * hparams.n_embd_head;
                layer.wq = create_tensor(tn(LLM_TENSOR_ATTN_Q, "weight", i), {n_embd, width}, 0);
                if (hparams.n_expert > 0) {
                    layer.up = create_tensor(tn(LLM_TENSOR_FFN_UP_EXPS, "weight", i), {n_embd, 8, hparams.n_expert}, 0);
                } else {
                    layer.up = create_tensor(tn(LLM_TENSOR_FFN_UP, "weight", i), {n_embd, 8}, 0);
                }
            }
        }
        llama_model_small::graph::graph(const llama_model & model) : base(model) {
            GGML_ASSERT(n_embd > 1);
        }
    """,
    "src/models/mixed.cpp": "void llama_model_mixed::load_arch_hparams(llama_model_loader & ml) { "
    "for (auto [a, b] : hparams.pairs) { use(a); } }",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("llama.cpp")
    for name, text in TREE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def table(tree: Path) -> Table:
    return make_table(tree, "0" * 40, "2026-01-01")


def rows(table: Table, architecture: str) -> list[tuple[str, str, int, str]]:
    """The tensors of an architecture: name, shape, flags, condition."""
    found = (table["rows"][place] for place in table["arch"][architecture]["t"])
    return [(name, shape, flags, table["guards"][guard]) for name, shape, flags, guard, _ in found]


# Syntax.


@pytest.mark.parametrize(
    ("text", "value"),
    [("1 + 2 * 3", "7"), ("(1 + 2) * 3", "9"), ("7 / 2", "3"), ("7.0f / 2", "3.5"), ("0x10u", "16"), ("true ? 4 : 5", "4"),
     ("static_cast<int>(3) - 1", "2"), ("(int64_t) 5 % 3", "2"), ('"a" == "b"', "0"), ("!0 && 2 > 1", "1"),
     ("std::max(2, 3)", "3"), ("1 << 4 | 1", "17"), ("-(3)", "-3")],
)  # fmt: skip
def test_expressions_without_a_file_are_numbers(tree: Path, text: str, value: str) -> None:
    loader = Loader(Sources(tree), "LLM_ARCH_SMALL")
    assert shown(loader.evaluate(parsed_expression(text))) == value


def test_what_is_not_understood_is_skipped_to_the_next_statement() -> None:
    body = functions("void f() { auto [a, b] = pair(); int c = 1; /* } */ g(c); // }\n }")["f"].body()
    assert [type(each).__name__ for each in body.statements] == ["Unread", "Declaration", "Evaluation"]
    assert isinstance(body.statements[0], Unread)


def test_functions_are_those_at_the_top_level() -> None:
    text = '#define X(a) \\\n  a\nstruct s { int f() { } };\nint a(int n = 1, std::map<int, int> m) { return "}"; }'
    found = functions(text + " s::s() : x(1), y(2) { } int declared(int n);")
    assert list(found) == ["a", "s::s"]
    assert found["a"].parameters == ("n", "m")


def test_a_character_that_is_no_token_is_refused() -> None:
    with pytest.raises(SyntaxError, match="line 2"):
        functions("int a;\n`")


# Values.


def test_conditions_are_simplified() -> None:
    a, b = HasKey("~a"), HasKey("~b")
    assert both(a, ONE) == a
    assert both(a, negation(a)) == ZERO
    assert either(a, negation(a)) == ONE
    assert negation(negation(a)) == a
    assert conditional(negation(a), ZERO, ONE) == a
    assert conditional(a, b, conditional(a, ZERO, b)) == b
    assert conditional(a, ONE, conditional(b, ONE, Key("~c"))) == conditional(either(a, b), ONE, Key("~c"))


def test_what_is_unknown_stays_so() -> None:
    value = operation("+", Unknown("why"), ONE)
    assert unresolved(value)
    assert shown(value) == "U+1"
    assert conditional(Unknown("why"), ONE, ZERO) == Unknown("why")


def test_parentheses_stand_where_they_must() -> None:
    a, b = Key("~a"), Key("~b")
    product = operation("*", operation("+", a, b), b)
    assert shown(product) == "(K('~a')+K('~b'))*K('~b')"
    assert shown(operation("-", a, operation("-", a, b))) == "K('~a')-(K('~a')-K('~b'))"
    assert shown(negation(operation("==", a, b))) == "not K('~a')==K('~b')"
    assert shown(both(a, either(a, b))) == "K('~a') and (K('~a') or K('~b'))"


# The small tree.


def test_tensors_have_shapes_flags_and_conditions(table: Table) -> None:
    assert rows(table, "small") == [
        ("token_embd.weight", "n_embd,n_vocab", 0, "1"),
        ("output.weight", "n_embd,n_vocab", 1, "1"),
        ("token_embd.weight", "n_embd,n_vocab", 2, "not has('output.weight')"),
        ("blk.{i}.attn_q.weight", "n_embd,n_head_arr[i]*n_embd_head", 0, "1"),
        ("blk.{i}.ffn_up_exps.weight", "n_embd,8,n_expert", 0, "n_expert>0"),
        ("blk.{i}.ffn_up.weight", "n_embd,8", 0, "not n_expert>0"),
    ]
    assert table["loops"] == [[], [["i", "0", "n_layer_all"]]]


def test_keys_have_types_and_needs(table: Table) -> None:
    assert table["common"]["k"] == [
        ["~embedding_length", "u32", "v", "1", "1", ""],
        ["~block_count", "u32", "v", "1", "1", ""],
        ["~expert_count", "u32", "v", "0", "1", ""],
        ["~attention.head_count", "u32", "va", "0", "1", "K('~block_count')"],
    ]
    assert [table["keys"][place] for place in table["arch"]["small"]["k"]] == [
        ["~attention.key_length", "u32", "v", "1", "1", ""]
    ]
    assert table["arch"]["small"]["d"] | table["common"]["d"] == {
        "n_layer": "n_layer_all-n_layer_nextn", "n_embd": "K('~embedding_length')", "n_expert": "D('~expert_count',0)",
        "n_layer_all": "K('~block_count')", "n_head_arr[]": "DA('~attention.head_count',i,0)",
        "n_embd_head": "K('~attention.key_length')",
    }  # fmt: skip


def test_refusals_are_conditions(table: Table) -> None:
    assert table["common"]["a"] == [["K('~block_count')>0", "1", [], "assert"], ["n_embd>1", "1", [], "graph"]]
    assert table["asserts"] == [["0", "K('~attention.key_length')%2!=0", [], "throw"]]


def test_a_class_without_a_function_has_that_of_its_base(table: Table) -> None:
    names = [name for name, *_ in rows(table, "mixed")]
    assert names == [name for name, *_ in rows(table, "small")]
    assert table["none"] == {"gone": "no class"}


def test_what_is_not_understood_is_counted(table: Table) -> None:
    count = counts(table)
    assert count["architectures"] == 2
    assert count["statements unread"] == 1
    assert table["arch"]["mixed"]["notes"] == ["own:1 loop over hparams.pairs"]


def test_what_is_beside_the_loaders(table: Table) -> None:
    assert table["common"]["scales"] == [["blk.{i}.attn_q", "scale", "1"]]
    assert table["common"]["ops"] == {"token_embd": "GET_ROWS"}
    assert table["vocab"]["merges"] == ["gpt2"]
    assert table["vocab"]["pre"] == ["default"]


def test_the_same_tree_gives_the_same_bytes(tree: Path, table: Table) -> None:
    text = as_text(table)
    assert as_text(make_table(tree, "0" * 40, "2026-01-01")) == text
    assert json.loads(text) == table
    assert all(line.count("[") or line[0] in '{}]"' for line in text.splitlines())


def test_sources_of_another_form_are_refused(tree: Path, tmp_path: Path) -> None:
    for name in TREE:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (tree / name).read_text(encoding="utf-8")
        path.write_text(text.replace("load_arch_tensors", "load_tensors_of_all"), encoding="utf-8")
    with pytest.raises(ValueError, match="another form"):
        make_table(tmp_path, "0" * 40, "2026-01-01")


# The gates.


def shipped() -> Table:
    return command.read_table(command.SHIPPED)


def test_the_shipped_table_may_be_shipped() -> None:
    assert faults(shipped(), shipped()) == []
    assert list(differences(shipped(), shipped())) == []


def test_the_shipped_table_is_as_it_is_written(tmp_path: Path) -> None:
    for name in ("table.json.gz", "table.json"):
        command.write_table(shipped(), tmp_path / name)
        assert command.read_table(tmp_path / name) == shipped()
    assert (tmp_path / "table.json").read_text(encoding="utf-8") == as_text(shipped())


def test_the_shipped_table_is_well_formed() -> None:
    table = shipped()
    assert re.fullmatch("[0-9a-f]{40}", table["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table["date"])
    for found in table["arch"].values():
        assert max(found["t"]) < len(table["rows"])
        assert max(found["k"], default=0) < len(table["keys"])
        assert max(found["a"], default=0) < len(table["asserts"])
    assert all(guard < len(table["guards"]) and loop < len(table["loops"]) for *_, guard, loop in table["rows"])


def broken(**changes: int) -> Table:
    """The shipped table with other counts of one architecture: rows, unresolved, statements, unread."""
    table = copy.deepcopy(shipped())
    numbers = table["arch"]["llama"]["n"]
    for name, value in changes.items():
        numbers[{"unresolved": 1, "unread": 3}[name]] += value
    return table


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (broken(unresolved=20), "rows are unresolved"),
        (broken(unread=20), "statements were not understood"),
        (
            {**shipped(), "arch": {k: v for k, v in shipped()["arch"].items() if k != "llama"}},
            "architecture llama is lost",
        ),
        ({**shipped(), "guards": [*shipped()["guards"], *["x" * 100] * 700]}, "more than 1.2 times"),
    ],
)
def test_a_table_of_less_yield_is_refused(table: Table, reason: str) -> None:
    (found,) = faults(table, shipped())
    assert reason in found


def test_a_difference_is_a_row(tree: Path, table: Table) -> None:
    other = copy.deepcopy(table)
    place = other["arch"]["small"]["t"][1]
    other["rows"][place][2] = 0
    other["arch"]["new"] = other["arch"].pop("mixed")
    assert list(differences(table, other)) == [
        "- architecture mixed",
        "+ architecture new",
        "- tensor output.weight: n_embd,n_vocab, flags 1, if 1 (small)",
        "+ tensor output.weight: n_embd,n_vocab, flags 0, if 1 (small)",
    ]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_the_command_writes_nothing_where_a_gate_fails(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("--commit", "0" * 40, "--date", "2026-01-01")
    out = tmp_path / "table.json.gz"
    assert command.run(options(str(tree), "-o", str(out), *named, "--shipped", str(tmp_path / "none"))) == 1
    assert "1 of 45 statements were not understood" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_compares(tree: Path, tmp_path: Path, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    other = copy.deepcopy(table)
    other["arch"]["former"] = other["arch"]["small"]
    command.write_table(other, tmp_path / "shipped.json")
    named = ("--commit", "0" * 40, "--date", "2026-01-01")
    assert command.run(options(str(tree), "--check", *named, "--shipped", str(tmp_path / "shipped.json"))) == 1
    printed = capsys.readouterr()
    assert "\n- architecture former\n" in printed.out
    assert "the architecture former is lost: it has no name" in printed.err


def test_the_command_says_why_sources_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(options(str(tmp_path), "--commit", "0" * 40, "--date", "2026-01-01")) == 1
    assert "llama-arch.cpp" in capsys.readouterr().err
    assert command.run(options(str(tmp_path))) == 1
    assert "git knows no commit" in capsys.readouterr().err


# llama.cpp's own sources.


@pytest.mark.thorough
def test_a_source_distribution_gives_the_shipped_table(tmp_path: Path) -> None:
    """`I2S_LLAMA_CPP_SDIST` names the archive of llama-cpp-python 0.3.36."""
    archive = os.environ.get("I2S_LLAMA_CPP_SDIST")
    if not archive:
        pytest.skip("I2S_LLAMA_CPP_SDIST names no source distribution of llama-cpp-python")
    tree = sdist.unpack(Path(archive), tmp_path)
    assert make_table(tree, *sdist.origin(tree)) == shipped()


def test_the_shipped_table_is_that_of_an_independent_reader(shared: Path) -> None:
    """A table of the same commit that another reader made; words of notes differ, and it has no date."""
    path = shared / "cases" / "arch-tables" / "arch-tables.json"
    if not path.is_file():
        pytest.skip("no table of another reader")
    ours, theirs = shipped(), json.loads(path.read_text(encoding="utf-8"))
    if ours["commit"] != theirs["commit"]:
        pytest.skip("the table of another reader is of another commit")
    for table in (ours, theirs):
        for found in table["arch"].values():
            found.pop("notes", None)
        table.pop("date", None)
    assert ours == theirs
