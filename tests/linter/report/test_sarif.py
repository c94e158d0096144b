"""The SARIF report, checked with Microsoft's object model of SARIF 2.1.0 and, if installed, with its validator."""

from __future__ import annotations

import json
import os
import re
import subprocess
from base64 import b64decode
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import attr
import pytest
from builders import model_bytes
from hostile import NAME, hostile
from malformed_cases import SMALL, broken

from i2s_spec._version import __version__
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import failed, lint_path
from i2s_spec.linter.report import make
from i2s_spec.linter.report.sarif import semantic_version
from i2s_spec.linter.report_data import Totals
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, key_value


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One log of every broken copy, a sound file, one that is missing, one that is hostile, and a bug of ours."""
    folder = tmp_path_factory.mktemp("sarif")
    form, totals = make("sarif"), Totals(configuration=(("i2s.toml", ("ignore",)),))
    text = form.begin()
    for name, case in SMALL.items():
        (folder / f"{name}.gguf").write_bytes(case.data)
    (folder / "many.gguf").write_bytes(many())
    (folder / "sound.gguf").write_bytes(Draft().data)
    (folder / NAME).write_bytes(hostile())
    reports = [lint_path(path) for path in sorted(folder.iterdir())]
    reports += [lint_path(folder / "missing.gguf"), failed("bug.gguf", "KeyError: 1")]
    reports.append(lint_path(folder / "lfs_pointer.gguf", Options(skip_lfs=True)))
    for file_report in reports:
        totals.add(file_report)
        text += form.file(file_report)
    loaded: dict[str, Any] = json.loads(text + form.end(totals))
    return loaded


def many() -> bytes:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(150)]
    return draft.built(file)


@cache
def model() -> dict[str, type]:
    import sarif_om

    return {name: found for name, found in vars(sarif_om).items() if isinstance(found, type) and attr.has(found)}


#: The class of the object model that each property contains.
HOLDS = {
    "runs": "Run", "tool": "Tool", "driver": "ToolComponent", "rules": "ReportingDescriptor",
    "notifications": "ReportingDescriptor", "results": "Result", "artifacts": "Artifact", "invocations": "Invocation",
    "toolExecutionNotifications": "Notification", "toolConfigurationNotifications": "Notification",
    "message": "Message", "locations": "Location",
    "physicalLocation": "PhysicalLocation", "artifactLocation": "ArtifactLocation", "region": "Region",
    "snippet": "ArtifactContent", "logicalLocations": "LogicalLocation", "shortDescription": "MultiformatMessageString",
    "fullDescription": "MultiformatMessageString", "help": "MultiformatMessageString",
    "defaultConfiguration": "ReportingConfiguration", "descriptor": "ReportingDescriptorReference",
    "location": "ArtifactLocation",
}  # fmt: skip


def modelled(kind: str, value: dict[str, Any]) -> None:
    """Build an object of the model: it takes only the properties that the standard gives it, and wants those it needs."""
    cls = model()[kind]
    names = {field.metadata.get("schema_property_name", field.name): field.name for field in attr.fields(cls)}
    assert value.keys() <= names.keys(), (kind, value.keys() - names.keys())
    cls(**{names[key]: item for key, item in value.items()})
    for key, item in value.items():
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, dict) and key not in {"properties", "partialFingerprints"}:
                modelled(HOLDS[key], part)


def test_log_fits_the_object_model(log: dict[str, Any]) -> None:
    pytest.importorskip("sarif_om")
    modelled("SarifLog", log)


def test_object_model_refuses_what_is_wrong(log: dict[str, Any]) -> None:
    pytest.importorskip("sarif_om")
    with pytest.raises(AssertionError):
        modelled("SarifLog", {**log, "invented": 1})
    with pytest.raises(TypeError):
        modelled("Result", {"ruleId": "G001"})


def test_results_refer_to_what_is_there(log: dict[str, Any]) -> None:
    (run,) = log["runs"]
    rules, artifacts = run["tool"]["driver"]["rules"], run["artifacts"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        artifact = artifacts[place["artifactLocation"]["index"]]
        assert artifact["location"]["uri"] == place["artifactLocation"]["uri"]
        region = place["region"]
        assert region["byteOffset"] + region["byteLength"] <= artifact.get("length", 0)
        if "snippet" in region:
            assert 0 < len(b64decode(region["snippet"]["binary"])) <= region["byteLength"]


def test_snippets_are_the_bytes_of_the_file(log: dict[str, Any]) -> None:
    (run,) = log["runs"]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        name = place["artifactLocation"]["uri"].rpartition("/")[2].removesuffix(".gguf")
        if name in SMALL and "snippet" in place["region"]:
            data = b64decode(place["region"]["snippet"]["binary"])
            assert broken(name)[place["region"]["byteOffset"] :].startswith(data)


def test_rules_bring_their_help(log: dict[str, Any]) -> None:
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        known = REGISTRY[rule["id"]]
        assert rule["shortDescription"]["text"] == known.title
        assert all(words in rule["help"]["text"] for words in known.sections.values())
        assert f"clause-{known.clause}" in rule["properties"]["tags"]
        assert known.cwe is None or f"external/cwe/cwe-{known.cwe}" in rule["properties"]["tags"]


def test_fingerprints_tell_results_of_a_file_apart(log: dict[str, Any]) -> None:
    seen = set()
    for result in log["runs"][0]["results"]:
        (print_,) = result["partialFingerprints"].values()
        key = (result["locations"][0]["physicalLocation"]["artifactLocation"]["index"], print_)
        assert key not in seen
        seen.add(key)


def test_fingerprints_do_not_depend_on_places(tmp_path: Path) -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"Odd", ValueType.UINT8, 1)]
    prints = []
    for more in (b"x", b"x" * 1000):
        file.key_values[-1].value = 1
        longer = draft.records()
        longer.key_values[0].value = more
        longer.key_values += [key_value(b"Odd", ValueType.UINT8, 1)]
        path = tmp_path / "model.gguf"
        path.write_bytes(draft.built(longer))
        form = make("sarif")
        text = form.begin() + form.file(lint_path(path, Options(select=("G207",)))) + form.end(Totals())
        prints.append([result["partialFingerprints"] for result in json.loads(text)["runs"][0]["results"]])
    assert prints[0] == prints[1] != []


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("0.2.0.dev0", "0.2.0-dev.0"), ("0.2.0", "0.2.0"), ("1.0rc2", "1.0.0-rc.2"), ("1.2.3a1+g5", "1.2.3-a.1+g5")],
)
def test_the_version_is_semantic(log: dict[str, Any], version: str, wanted: str) -> None:
    assert semantic_version(version) == wanted
    # The grammar of Semantic Versioning 2.0.0, without its bound on leading zeros.
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", wanted)
    assert log["runs"][0]["tool"]["driver"]["semanticVersion"] == semantic_version(__version__)


def test_invocation_says_how_it_ended(log: dict[str, Any]) -> None:
    (run,) = log["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["exitCode"] == 4
    said = {each["descriptor"]["id"] for each in invocation["toolExecutionNotifications"]}
    said |= {each["descriptor"]["id"] for each in invocation["toolConfigurationNotifications"]}
    assert said | {"what-was-read"} == {each["id"] for each in run["tool"]["driver"]["notifications"]}


def test_a_sample_is_a_notification(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Draft().data)
    form = make("sarif")
    text = form.begin() + form.file(lint_path(path, Options(payload="sample"))) + form.end(Totals())
    (invocation,) = json.loads(text)["runs"][0]["invocations"]
    told = invocation["toolExecutionNotifications"]
    assert {each["descriptor"]["id"] for each in told} == {"what-was-read"}
    sampled, left = (each["message"]["text"] for each in told)
    assert sampled.startswith("sampled: ")
    assert left == "not checked: keys, tensors and shapes (architecture 'sample' is not known)"


def test_names_of_notifications_say_more_than_their_ids(log: dict[str, Any]) -> None:
    """SARIF 2.1.0, 3.49.7: a name is for a person; one that is the identifier again is left out."""
    for each in log["runs"][0]["tool"]["driver"]["notifications"]:
        assert each["name"].lower() != each["id"].lower()


def test_an_empty_run_is_a_log() -> None:
    form = make("sarif")
    empty = json.loads(form.begin() + form.end(Totals()))
    assert empty["runs"][0]["results"] == []
    assert empty["runs"][0]["invocations"][0]["exitCode"] == 0


@pytest.mark.parametrize("rules", ["Sarif", "Ghas"])
def test_validator_finds_nothing(log: dict[str, Any], rules: str, tmp_path: Path) -> None:
    """Microsoft's validator: the schema, the standard's other demands, and those of GitHub."""
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    peers = Path(os.environ.get("I2S_PEERS") or Path(cache_folder) / "i2s-spec" / "peers")
    tool = peers / "node_modules" / "@microsoft" / "sarif-multitool-linux" / "Sarif.Multitool"
    if not tool.is_file():
        pytest.skip(f"no validator: npm install --prefix {peers} @microsoft/sarif-multitool-linux")
    if not os.access(tool, os.X_OK):
        tool.chmod(0o755)  # npm loses the executable bit
    path = tmp_path / "log.sarif"
    path.write_text(json.dumps(log), encoding="utf-8")
    command = [str(tool), "validate", str(path), "--rule-kind", rules, "--level", "Error;Warning"]
    environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=600, env=environment)
    assert "Analysis completed successfully." in done.stdout
    faults = [line for line in done.stdout.splitlines() if ": error " in line or ": warning " in line]
    # SARIF2005 asks for the tool's address, which exists only after publication.
    assert not [line for line in faults if "warning SARIF2005: runs[0].tool.driver: " not in line]


def test_paths_of_a_repository_have_no_dot_in_front() -> None:
    """Code hosts find the file of a result by its path from the root of the repository."""
    report = replace(lint(broken("dup_key")), path="./models/a.gguf")
    assert report.as_dict()["uri"] == "models/a.gguf"
    assert replace(report, path="../a.gguf").as_dict()["uri"] == "../a.gguf"
    assert replace(report, path=".//a.gguf").as_dict()["uri"] == "a.gguf"


def test_help_says_what_to_do_next(log: dict[str, Any]) -> None:
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        for words in rule["help"].values():
            assert f"`i2s explain {rule['id']} --example`" in words
            repair = {"safe": "`i2s fix` repairs it", "unsafe": "`i2s fix --unsafe` repairs it", "none": "explain"}
            assert repair[REGISTRY[rule["id"]].fix.value] in words


def test_a_badge_says_how_many_files_passed() -> None:
    def badge(*reports: Any) -> Any:
        form, totals = make("shields"), Totals()
        for report in reports:
            totals.add(report.as_dict())
        return json.loads(form.begin() + "".join(map(form.file, reports)) + form.end(totals))

    good, bad = lint(model_bytes(), select=["G"]), lint(broken("dup_key"))
    assert badge(good) == {"schemaVersion": 1, "label": "i2s lint", "message": "1 of 1 ok", "color": "brightgreen"}
    assert badge(good, bad)["message"] == "1 of 2 ok"
    assert badge(good, bad)["color"] == "red"
    assert badge()["message"] == "no file"
    in_part = lint(Draft().data, select=["G"])
    assert in_part.ok
    assert in_part.unchecked
    assert badge(in_part)["message"] == "1 of 1 no error in what was checked"
    assert badge(good, in_part)["message"] == "2 of 2 no error in what was checked"
