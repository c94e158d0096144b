"""The finds of a campaign as text, as JSON (`fuzz.schema.json`), or as JUnit's XML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from i2s_spec._version import tool
from i2s_spec.draw.text import xml_text
from i2s_spec.errors import counted, quote
from i2s_spec.fuzzing.campaign import Campaign, CampaignFind
from i2s_spec.fuzzing.expectations import MEANING, Kind

SCHEMA_VERSION: Final = 1


def as_dict(campaign: Campaign) -> dict[str, Any]:
    """Return the result in the shape that `fuzz.schema.json` describes."""
    settings = campaign.settings
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": tool(),
        "command": [quote(word, limit=4096, bare=True) for word in campaign.command.words],
        "stdin": campaign.command.stdin,
        "seed": settings.seed,
        "jobs": settings.jobs,
        "bounds": {"seconds": settings.bounds.seconds, "memory": settings.bounds.memory},
        "policy": {
            "reads": settings.policy.reads.value,
            "supports": sorted(settings.policy.supports),
            "profile": settings.policy.profile,
            "must_reject": {code: owed.reason for code, owed in sorted(settings.policy.obligations.items())},
        },
        "next": campaign.index,
        "ok": not campaign.findings,
        "findings": [_plain(found) for found in _ordered(campaign)],
        "summary": {
            "runs": campaign.totals["runs"],
            "accepted": campaign.totals["accepted"],
            "rejected": campaign.totals["rejected"],
            "must_accept": campaign.totals["must accept"],
            "must_reject": campaign.totals["must reject"],
            **{kind.value: campaign.totals[kind.value] for kind in Kind},
        },
    }


def json_report(campaign: Campaign) -> str:
    """Return the result as one JSON document."""
    return json.dumps(as_dict(campaign), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def text_report(campaign: Campaign, folder: str | None) -> str:
    """Return the result for people.

    :param folder: where the files of the finds are, if they were kept
    """
    return "\n".join(_lines(campaign, folder)) + "\n"


def _lines(campaign: Campaign, folder: str | None) -> Iterator[str]:
    for found in _ordered(campaign):
        rule = f" [{found.code} {found.slug}, clause {found.clause}]" if found.code else ""
        sure = "" if found.confirmed else ", not again on a second try"
        yield f"{found.kind}: {_happened(found)}{rule}{sure}"
        if found.kind in (Kind.ACCEPTS, Kind.REJECTS):
            yield f"  why: {found.reason}"
        if found.stderr_tail:
            yield f"  said: {quote(found.stderr_tail.splitlines()[-1], limit=160, bare=True)}"
        times = f"; {counted(found.times, 'time')} in all" if found.times > 1 else ""
        yield f"  input {found.index:,} ({found.stage}): {quote(found.what, limit=200, bare=True)}{times}"
        if folder is not None:
            small = f"from {found.original_size:,}" if found.size < found.original_size else "as it was"
            yield (
                f"  file: {quote(folder, limit=4096, bare=True)}/findings/{found.file} "
                f"({counted(found.size, 'byte')}, {small})"
            )
        yield ""
    totals = campaign.totals
    yield (
        f"{counted(totals['runs'], 'file')}: {totals['accepted']:,} accepted, {totals['rejected']:,} rejected; "
        f"{totals['must accept']:,} must be accepted, {totals['must reject']:,} must be rejected"
    )
    count = len(campaign.findings)
    kinds = ", ".join(f"{sum(f.kind == kind for f in campaign.findings)} {kind}" for kind in Kind if totals[kind.value])
    yield f"{counted(count, 'finding')}{f' ({kinds})' if kinds else ''}; seed {campaign.settings.seed}"


def _happened(found: CampaignFind) -> str:
    kind = Kind(found.kind)
    if kind is Kind.CRASH:
        return f"ended by {found.outcome}"
    if kind is Kind.HANG:
        return f"{MEANING[kind]} ({found.seconds:.1f} s)"
    if kind is Kind.MEMORY:
        return f"{MEANING[kind]} ({found.memory / (1 << 20):,.0f} MiB)"
    return f"{MEANING[kind]} ({found.outcome})"


def junit_report(campaign: Campaign) -> str:
    """Return the result for continuous integration: a test for each kind of find, with one failure for each find."""
    cases = []
    for kind in Kind:
        finds = [found for found in _ordered(campaign) if found.kind == kind]
        for found in finds:
            rule = f" {found.code} {found.slug}" if found.code else ""
            body = "\n".join((_happened(found), f"why: {found.reason}", f"said: {found.stderr_tail}", f"input: {found.what}",
                              f"file: {found.file}, sha256 {found.sha256}"))  # fmt: skip
            failure = f'<failure message="{xml_text(_happened(found))}" type="{kind}">{xml_text(body)}</failure>'
            cases.append(f'    <testcase classname="{kind}" name="{xml_text(kind + rule)}">{failure}</testcase>')
        if not finds:
            cases.append(f'    <testcase classname="{kind}" name="never {xml_text(MEANING[kind])}"/>')
    name = xml_text(" ".join(campaign.command.words))
    counts = f'tests="{len(cases)}" failures="{len(campaign.findings)}" errors="0" skipped="0"'
    suite = f'  <testsuite name="{name}" {counts}>\n' + "\n".join(cases) + "\n  </testsuite>\n"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="i2s fuzz">\n{suite}</testsuites>\n'


def _ordered(campaign: Campaign) -> list[CampaignFind]:
    """Return the finds, the worst kind first, else as they came."""
    kinds = [kind.value for kind in Kind]
    return sorted(campaign.findings, key=lambda found: (kinds.index(found.kind), found.index))


def _plain(found: CampaignFind) -> Mapping[str, Any]:
    """Return a find with what the decoder said, and what our own texts do not bound, escaped."""
    plain = asdict(found)
    plain["said"] = quote(plain.pop("stderr_tail"), limit=600, bare=True)
    plain["what"] = quote(found.what, limit=400, bare=True)
    plain["signature"] = quote(found.signature, limit=240, bare=True)
    return plain
