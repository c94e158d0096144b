"""Receipts: valid files pass, files that changed later do not, and the checks are independent of the importer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from importer_mistakes import other_convention
from receipts import statuses
from tiny_checkpoints import TINY, TYPE, bf16_2b4t, llama3, packed_2b4t

from i2s_spec.checkpoints import reference_import, source_weights
from i2s_spec.checkpoints.folder import CheckpointFolder
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import failed, make_receipt, verify_receipt, write_receipt
from i2s_spec.checkpoints.reference_import import CheckpointForward, Witness
from i2s_spec.cli import cli
from i2s_spec.safetensors import packed


@pytest.mark.parametrize("name", TINY)
def test_sound_files_pass_every_check_that_can_be_made(name: str, tmp_path: Path) -> None:
    folder, path = TINY[name][1]().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, to=TYPE.get(name, "I2_S"))
    receipt = make_receipt(folder, path, positions=8)
    not_made = {"i", "g"} if name == "weight-only" else {"i"}
    assert statuses(receipt) == {id: "not made" if id in not_made else "passed" for id in "abcdefghik"}


@pytest.mark.thorough
@pytest.mark.parametrize("to", ["F32", "F16", "Q2_0", "PQ2_0", "IQ2_BN"])
def test_other_types_pass_as_well(to: str, tmp_path: Path) -> None:
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, to=to, pre="llama-bpe")
    assert failed(make_receipt(folder, path, only="abcdegk", positions=8)) == []


def test_a_code_on_a_tie_is_not_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound file in which the two forward passes round three activations differently, and all others alike."""
    folder, path = packed_2b4t(100).write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, pre="llama-bpe")
    (check,) = (check for check in make_receipt(folder, path, only="g")["checks"] if check["id"] == "g")
    assert (check["status"], check["facts"]["ties"] > 0) == ("passed", True)
    assert check["facts"]["largest_difference"] < 1e-5
    monkeypatch.setattr(reference_import, "TIE", -1)
    assert failed(make_receipt(folder, path, only="g")) == ["g"]


def test_codes_of_the_file_count_on_ties_only(tmp_path: Path) -> None:
    products = np.array([[0.5, 1.499, 1.49, -2.502, 126.5, 0.5]], dtype=np.float32)
    theirs = np.array([[1, 2, 2, -2, 127, 2]], dtype=np.int8)
    with CheckpointFolder(packed_2b4t().write(tmp_path)) as folder:
        forward = CheckpointForward(
            Witness(folder), quantized=lambda _: True, table=lambda values: values, scale=lambda _, values: values
        )
        assert forward._rounded(products, theirs).tolist() == [[1, 2, 1, -2, 127, 0]]
        assert forward.ties == 4
        assert forward._rounded(products, None).tolist() == [[0, 1, 1, -3, 126, 0]]


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


def test_matrices_of_several_types_are_each_computed_as_stored(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    result = import_checkpoint(folder, path, to="TQ2_0", fallback="F32")
    assert (result.types["TQ2_0"], result.types["F32"]) == (2, 9 + 12)
    (check,) = [each for each in make_receipt(folder, path, only="g")["checks"] if each["id"] == "g"]
    assert check["status"] == "passed", check
    assert check["facts"]["largest_difference"] < 1e-5  # 0.009 if one matrix's type is used for all


def test_import_and_verify_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    other_convention(monkeypatch)
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt, "--force", "--json"])
    assert run.exit_code == 1
    document = json.loads(run.output)
    assert {check["id"] for check in document["checks"] if check["status"] == "failed"} >= {"c", "g"}
    run = CliRunner().invoke(cli, ["verify", path, "--receipt", receipt, "-q"])
    assert (run.exit_code, run.output) == (0, "")


@pytest.mark.usefixtures("own_process")
def test_the_tokenizers_library_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A regular expression that backtracks forever ends with that process."""
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    assert statuses(make_receipt(folder, path, only="f"))["f"] == "passed"


def test_witness_is_independent_of_the_importer() -> None:
    """The receipt computes its values in other modules than the importer."""
    from i2s_spec.checkpoints import reference_import

    names = vars(reference_import)
    assert not {
        each for each in names.values() if getattr(each, "__module__", "") in (packed.__name__, source_weights.__name__)
    }


def test_infinite_weights_cause_no_warning() -> None:
    class Infinite:
        """A witness with infinite and NaN gains."""

        def gains(self, module: str) -> Any:
            return np.array([np.inf, np.nan, 0, 1], dtype=np.float32)

    forward = CheckpointForward.__new__(CheckpointForward)
    forward.witness, forward.eps = cast(Witness, Infinite()), np.float32(1e-5)
    normed = forward._rms(np.array([[np.inf, 0, 1, 1]], dtype=np.float32), "norm")
    assert normed.dtype == np.float32
    assert not np.isfinite(normed).all()


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
