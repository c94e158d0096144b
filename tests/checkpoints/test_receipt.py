"""Receipts: files as an import makes them pass, others do not, and every check says what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from receipts import statuses
from reference_import import Witness, differences
from tiny_checkpoints import TINY, TYPE, Tiny, bf16_2b4t, bonsai, llama3, packed_2b4t, plain_llama

from i2s_spec.checkpoints.folder import CheckpointFolder
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.plan import FLOAT_TYPES
from i2s_spec.checkpoints.receipt import failed, make_receipt, verify_receipt, write_receipt
from i2s_spec.checkpoints.receipt_checks import imported_again, tensor_hashes
from i2s_spec.cli import cli
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.encode import TARGETS
from i2s_spec.convert.rewrite import Replacement, rewrite
from i2s_spec.gguf.reader import open as open_file


@pytest.mark.parametrize("name", TINY)
def test_sound_files_pass_every_check_that_can_be_made(name: str, tmp_path: Path) -> None:
    folder, path = TINY[name][1]().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, to=TYPE.get(name, "I2_S"))
    receipt = make_receipt(folder, path, positions=8)
    not_made = {"i", "g"} if name == "weight-only" else {"i"}
    assert statuses(receipt) == {id: "not made" if id in not_made else "passed" for id in "abcdefghik"}
    with CheckpointFolder(folder) as opened, open_file(path) as file:
        assert differences(file, Witness(opened)) == []


#: Options of an import, and the checkpoint that each needs.
OPTIONS: dict[str, tuple[Callable[[], Tiny], dict[str, Any]]] = {
    **{f"--to {type}": (packed_2b4t, {"to": type, "fallback": "F32"}) for type in TARGETS},
    **{
        f"--to {type}, groups": (bonsai, {"to": type})
        for type in TARGETS
        if type in ("F32", "Q2_0", "PQ2_0", "Q2_0_G128")
    },
    **{f"--embedding {type}": (llama3, {"embedding": type}) for type in FLOAT_TYPES},
    "--fallback I2_S": (packed_2b4t, {"to": "TQ1_0", "fallback": "I2_S"}),
    "--family": (packed_2b4t, {"family": "bitnet-2b4t"}),
    "--rule ternary": (plain_llama, {"rule": "ternary"}),
    "--rule absmean": (plain_llama, {"rule": "absmean"}),
    "--weight-scale": (packed_2b4t, {"weight_scale": "divide"}),
    "--pre": (llama3, {"pre": "gpt-2"}),
    "--name, --source": (llama3, {"name": "other", "source": "org/repo"}),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_another_import_makes_the_same_bytes(option: str, tmp_path: Path) -> None:
    """Whatever was chosen is recorded in the receipt, or read from the file."""
    make, choices = OPTIONS[option]
    folder, path = make().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, threads=1, **choices)
    import_checkpoint(folder, tmp_path / "again.gguf", threads=3, **choices)
    assert path.read_bytes() == (tmp_path / "again.gguf").read_bytes()
    recorded = {name: choices.get(name) for name in ("family", "rule", "weight_scale")}
    receipt = make_receipt(folder, path, only="abcek", **recorded)
    assert (failed(receipt), receipt["choices"]) == ([], recorded)
    with CheckpointFolder(folder) as opened, open_file(path) as file:
        with imported_again(opened, file, **recorded) as again:
            assert not isinstance(again, str)
            assert {name: each["data"] for name, each in again.tensors.items()} == {
                name: each["data"] for name, each in tensor_hashes(file, ()).items()
            }
        assert differences(file, Witness(opened, choices.get("rule"), choices.get("weight_scale"))) == []


def test_equal_values_in_other_types_pass(tmp_path: Path) -> None:
    """Files of other converters: tensors of other types with the same values, and keys that an import does not write."""
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, embedding="F32")
    for number, (to, patterns) in enumerate({"TQ2_0": ["*.ffn_down.weight"], "F16": ["blk.0.attn_q.weight"]}.items()):
        convert_file(path, tmp_path / f"{number}.gguf", to=to, tensors=patterns)
        path = tmp_path / f"{number}.gguf"
    with open_file(path) as file:
        rewrite(file, tmp_path / "mixed.gguf", set={"bitnet-b1.58.rope.scale_linear": 1.0})
    assert statuses(make_receipt(folder, tmp_path / "mixed.gguf", only="abcegk")) == {
        **dict.fromkeys("abcegk", "passed"), **dict.fromkeys("dfhi", "not made")
    }  # fmt: skip


def test_tensors_of_types_that_no_import_writes_fail(tmp_path: Path) -> None:
    """A head that was quantized by another program; its logits are still compared."""
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    with open_file(path) as file:
        table = Replacement("Q8_0", lambda: [bytes(34) * (384 * 128 // 32)])
        rewrite(file, tmp_path / "q8.gguf", replace={"token_embd.weight": table})
    found = {each["id"]: each for each in make_receipt(folder, tmp_path / "q8.gguf", only="abg")["checks"]}
    assert [found[id]["status"] for id in "abg"] == ["passed", "failed", "failed"]
    assert "'token_embd.weight'" in found["b"]["detail"]
    assert "another import makes F32" in found["b"]["detail"]


def test_a_receipt_of_another_version_names_it(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    receipt = {**make_receipt(folder, path, only="b"), "tool": "i2s-spec 0.0.1", "choices": {}}
    write_receipt(receipt, tmp_path / "r.json")
    assert verify_receipt(path, tmp_path / "r.json", folder)["changed"] == []
    llama = llama3().write(tmp_path / "other")
    assert "the receipt was made by 'i2s-spec 0.0.1'" in verify_receipt(path, tmp_path / "r.json", llama)["changed"][-1]


def test_a_lost_fine_tune_is_detected(tmp_path: Path) -> None:
    base, tuned = packed_2b4t(1), packed_2b4t(1)
    import_checkpoint(base.write(tmp_path / "base"), tmp_path / "base.gguf")
    same = make_receipt(tmp_path / "base", tmp_path / "base.gguf", base=tmp_path / "base.gguf", only="i")
    assert statuses(same)["i"] == "failed"
    tuned.tensors["model.layers.1.mlp.up_proj.weight"] = packed_2b4t(2).tensors["model.layers.1.mlp.up_proj.weight"]
    import_checkpoint(tuned.write(tmp_path / "tuned"), tmp_path / "tuned.gguf")
    changed = make_receipt(tmp_path / "tuned", tmp_path / "tuned.gguf", base=tmp_path / "base.gguf", only="i")
    assert statuses(changed)["i"] == "passed"
    assert changed["checks"][8]["facts"]["changed"] > 10000


def test_a_float_revision_proves_the_convention(tmp_path: Path) -> None:
    latent = bf16_2b4t(20)
    latent.write(tmp_path / "latent")
    packed_one = packed_2b4t(20)
    for name in [each for each in packed_one.tensors if each.endswith("weight_scale")]:
        words = latent.tensors[name.removesuffix("_scale")][1]
        mean = np.abs((words.astype(np.uint32) << 16).view(np.float32)).mean()
        packed_one.tensors[name] = ("F32", np.array([mean], "<f4"))
    folder, path = packed_one.write(tmp_path / "packed"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    receipt = make_receipt(folder, path, latent=tmp_path / "latent", only="c")
    assert statuses(receipt)["c"] == "passed"
    assert "scales are the means of the float revision in 14 matrices" in receipt["checks"][2]["detail"]
    packed_one.config["quantization_config"]["linear_class"] = "bitlinear"  # this class divides by the scale
    import_checkpoint(packed_one.write(tmp_path / "wrong"), path, force=True)
    wrong = make_receipt(tmp_path / "wrong", path, latent=tmp_path / "latent", only="c")
    assert statuses(wrong)["c"] == "failed"


def test_verify_names_what_changed(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    write_receipt(make_receipt(folder, path, only="abcdk"), tmp_path / "r.json")
    assert verify_receipt(path, tmp_path / "r.json")["changed"] == []
    assert statuses(verify_receipt(path, tmp_path / "r.json"))["b"] == "not made"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # in the last norm
    path.write_bytes(data)
    assert verify_receipt(path, tmp_path / "r.json")["changed"] == ["tensor 'output_norm.weight' differs: data"]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rope_theta": 10000.0}))
    found = verify_receipt(path, tmp_path / "r.json", folder, positions=4)["changed"]
    assert "'config.json' of the checkpoint differs" in found
    assert "check b fails now" in found
    assert "check k fails now" in found


def test_import_and_verify_on_the_command_line(tmp_path: Path) -> None:
    folder, path, receipt = packed_2b4t().write(tmp_path / "c"), str(tmp_path / "o.gguf"), str(tmp_path / "r.json")
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt])
    assert run.exit_code == 0, run.output
    assert "family: bitnet-2b4t (architectures BitNetForCausalLM)" in run.output
    assert "g  passed" in run.output
    run = CliRunner().invoke(cli, ["verify", path, "--receipt", receipt])
    assert (run.exit_code, run.output.splitlines()[-1]) == (0, "24 tensors match the receipt")
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt])
    assert (run.exit_code, "already exists" in run.output) == (2, True)
    for written in ("config.json", "model.safetensors", "tokenizer.json"):
        taken, before = str(folder / written), (folder / written).read_bytes()
        for names in (("-o", taken), ("-o", path, "--receipt", taken)):
            run = CliRunner().invoke(cli, ["import", str(folder), *names, "--force"])
            assert (run.exit_code, "is an input file" in run.output) == (2, True)
        assert (folder / written).read_bytes() == before
    tuned = ["import", str(folder), "-o", str(tmp_path / "tuned.gguf"), "--receipt", receipt, "--base", path]
    run = CliRunner().invoke(cli, [*tuned, "--force", "--json"])
    assert run.exit_code == 1
    assert [each["id"] for each in json.loads(run.output)["checks"] if each["status"] == "failed"] == ["i"]
    run = CliRunner().invoke(cli, ["verify", path, "--receipt", receipt, "-q"])
    assert (run.exit_code, run.output) == (0, "")


@pytest.mark.usefixtures("own_process")
def test_ids_that_differ_late_are_shown_where_they_differ(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    with open_file(path) as file:
        words = list(file.metadata["tokenizer.ggml.tokens"])
        words[words.index("z")], words[words.index("!")] = "!", "z"
        rewrite(file, tmp_path / "other.gguf", set={"tokenizer.ggml.tokens": words})
    checks = {each["id"]: each for each in make_receipt(folder, tmp_path / "other.gguf", only="f")["checks"]}
    shown = re.findall(r"has the ids \[(.*?)\] from index (\d+) on, and \[(.*?)\] by", checks["f"]["detail"])
    assert any(int(index) >= 8 for _, index, _ in shown)
    assert all(found.split(",")[0] != want.split(",")[0] for found, _, want in shown)


def test_the_tokenizers_library_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A regular expression that backtracks forever ends with that process."""
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    assert statuses(make_receipt(folder, path, only="f"))["f"] == "passed"


@pytest.mark.parametrize(
    ("template", "status"),
    [
        ("{{ raise_exception('no') }}", "failed"),
        ("{{ messages.__class__.x }}", "failed"),
        ("{% if messages | length == 1 %}{{ raise_exception('too short') }}{% endif %}", "passed"),
    ],
)
def test_a_template_that_renders_no_conversation_does_not_pass(template: str, status: str, tmp_path: Path) -> None:
    tiny = packed_2b4t()
    cast(Any, tiny.files["tokenizer_config.json"])["chat_template"] = template
    folder, path = tiny.write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    assert statuses(make_receipt(folder, path, only="f"))["f"] == status
