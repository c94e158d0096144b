"""The pages of architectures: one for each that llama.cpp loads, with all that the table has, in words."""

from __future__ import annotations

import re

import pytest

from i2s_site import architectures
from i2s_spec.schema import llama_cpp
from i2s_spec.schema.llama_cpp import LoaderArchitecture, in_words

TABLE = llama_cpp.table()
PAGES = architectures.pages()


def loaded(name: str) -> LoaderArchitecture:
    found = TABLE.architecture(name)
    assert found is not None
    return found


def test_each_architecture_has_a_page_and_a_row_of_the_index() -> None:
    assert PAGES.keys() == {"architectures/index.md", *(f"architectures/{name}.md" for name in TABLE.names)}
    rows = re.findall(r"^\| \[`([^`]+)`\]\(\1\.md\) \| ", PAGES["architectures/index.md"], re.MULTILINE)
    assert rows == sorted(TABLE.names)
    assert TABLE.commit[:12] in PAGES["architectures/index.md"]


@pytest.mark.parametrize("name", sorted(TABLE.names))
def test_a_page_names_every_key_and_tensor(name: str) -> None:
    page, found = PAGES[f"architectures/{name}.md"], loaded(name)
    assert f"blob/{TABLE.commit}/src/models/{found.file}" in page
    assert all(f"`{key.name.replace(f'{name}.', '{arch}.', 1)}` |" in page for key in found.keys)
    unnamed = {row.name for row in found.rows if f"| `{row.name}` |" not in page}
    assert all(row.guard.text.endswith("&4") for row in found.rows if row.name in unnamed)
    assert not re.search(r"\b(?:DA?|DR|KA?|hask|isarr|klen|has|ne)\(|'~|lambda", page)


def test_needs_and_conditions_are_in_words() -> None:
    page = PAGES["architectures/qwen35.md"]
    assert "| `output.weight` | `n_embd, n_vocab` | optional |  | MUL_MAT |" in page
    assert (
        "| `token_embd.weight` | `n_embd, n_vocab` | stored once, used again | `output.weight is missing` | GET_ROWS |"
        in page
    )
    assert (
        "| `blk.{i}.nextn.eh_proj.weight` | `2*n_embd, n_embd` | required, not loaded by default | in next-token"
        in page
    )
    assert "| `blk.{i}.ssm_a` | `ssm_dt_rank` | required | `is_recr_impl[i]` | MUL |" in page
    assert "`i2s new model.gguf --arch qwen35` writes a small one" in page
    assert "- `expert_group_count < expert_count`, where `expert_count > 0`" in page
    assert "`i2s new` writes no such file: the shape of fc.weight in eagle3" in PAGES["architectures/eagle3.md"]


def test_what_is_not_resolved_is_said() -> None:
    assert "## Not resolved" not in PAGES["architectures/qwen35.md"]
    assert re.search(
        r"## Not resolved .*\n\nThe script did not resolve tensors `rope_freqs.weight`",
        PAGES["architectures/gemma4.md"],
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("K('~block_count')>0", "block_count > 0"),
        ("KA('~expert_feed_forward_length',i)", "expert_feed_forward_length"),
        ("D('~rope.dimension_count',D('~attention.key_length',K('~embedding_length')//DA('~attention.head_count',0,0)))%2==0",
         "rope.dimension_count % 2 == 0"),
        ("K('~expert_group_count')==0 if hask('~expert_group_count') else 1", "expert_group_count == 0 where it exists"),
        ("not has(f'blk.{i}.attn_qkv.weight')", "blk.{i}.attn_qkv.weight is missing"),
        ("ne('markov_w1.weight',0)", "dimension 0 of markov_w1.weight"),
        ("not (K('~ssm.conv_kernel')==0)", "ssm.conv_kernel != 0"),
        ("not (K('~adapters.count')>4096)", "adapters.count <= 4096"),
        ("D('~unclosed',", "unclosed"),
    ],
)  # fmt: skip
def test_expressions_read_aloud(text: str, words: str) -> None:
    assert in_words(text) == words
