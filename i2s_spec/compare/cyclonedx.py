"""A bill of materials in the form of CycloneDX: a model with its digests, licence and base models, by cyclonedx-python-lib.

The model is a component of type `machine-learning-model`. Its SHA-256 is that of the file; of a split model each part is a
component in it. The identity of the weights (`compare.hash`), which stays the same when a file is repacked, is the property
`i2s-spec:weights-sha256`. Base models are the ancestors of its pedigree. All texts are those of the file, quoted; what a
file does not say is left out. The same file gives the same document: there is no time in it, and its number follows from
the digests.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from i2s_spec._version import __version__
from i2s_spec.compare.hash import hash as identity_of
from i2s_spec.errors import MissingExtra, quote

if TYPE_CHECKING:
    from cyclonedx.model import ExternalReference
    from cyclonedx.model.component import Component

    from i2s_spec.compare.hash import Identity
    from i2s_spec.gguf.reader import File

#: Most base models that are listed, and characters of a text.
MOST_BASES: Final = 64
LONGEST: Final = 1000

#: Addresses that are given as such; anything else is no address for every reader.
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


def bill_of_materials(file: File) -> dict[str, Any]:
    """Return the bill of materials of a file, as plain data of CycloneDX 1.6.

    :param file: a file, or the first part of a split model, with the others beside it
    :raises MissingExtra: where cyclonedx-python-lib is not installed
    :raises FormatError: for a file with a fault, and where it does not hold a tensor whole
    """
    try:
        from cyclonedx.model.bom import Bom, BomMetaData
        from cyclonedx.model.component import Component, ComponentType
        from cyclonedx.output.json import JsonV1Dot6
    except ImportError:
        raise MissingExtra("a bill of materials", "sbom") from None
    found = identity_of(file)
    program = Component(name="i2s-spec", version=__version__, type=ComponentType.APPLICATION)
    number = uuid.uuid5(uuid.NAMESPACE_OID, " ".join(("i2s-spec", found.file, found.weights, *found.parts)))
    bom = Bom(serial_number=number, metadata=BomMetaData(component=_model(file, found), tools=None))
    bom.metadata.tools.components.add(program)
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp", None)
    return document


def _model(file: File, found: Identity) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType, Pedigree

    facts = {
        "i2s-spec:weights-sha256": found.weights,
        "i2s-spec:metadata-sha256": found.metadata,
        "gguf:architecture": _text(file, "general.architecture"),
        "gguf:types": ", ".join(sorted({tensor.kind for tensor in file.tensors.rows})),
        "gguf:license-name": _text(file, "general.license.name"),
        "gguf:license-link": _text(file, "general.license.link"),
    }
    licence = _text(file, "general.license") or _text(file, "general.license.name")
    bases = list(_bases(file))
    name = os.path.basename(file.name)
    parts = [
        Component(
            name=f"part {i + 1} of {len(found.parts)}", type=ComponentType.FILE, bom_ref=f"part-{i + 1}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
        for i, digest in enumerate(found.parts)
    ]  # fmt: skip
    return Component(
        name=_text(file, "general.name") or quote(name, LONGEST, bare=True) or "model",
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref="model",
        version=_text(file, "general.version"),
        publisher=_text(file, "general.organization"),
        description=_text(file, "general.description"),
        hashes=None if parts else [HashType(alg=HashAlgorithm.SHA_256, content=found.file)],
        licenses=[LicenseFactory().make_from_string(licence)] if licence else None,
        pedigree=Pedigree(ancestors=bases) if bases else None,
        external_references=list(_references(file, "general.repo_url", "general.url", "general.source.url")),
        components=parts,
        properties=[Property(name=each, value=value) for each, value in facts.items() if value],
    )


def _bases(file: File) -> Iterator[Component]:
    """Yield the models that a file names as those which it was made from."""
    from cyclonedx.model.component import Component, ComponentType

    count = file.metadata.short("general.base_model.count")
    for i in range(min(count, MOST_BASES) if isinstance(count, int) else 0):
        prefix = f"general.base_model.{i}"
        name = _text(file, f"{prefix}.name") or _text(file, f"{prefix}.repo_url")
        if name:
            yield Component(
                name=name,
                group=_text(file, f"{prefix}.organization"),
                version=_text(file, f"{prefix}.version"),
                type=ComponentType.MACHINE_LEARNING_MODEL,
                bom_ref=f"base-{i}",
                external_references=list(_references(file, f"{prefix}.repo_url", f"{prefix}.url")),
            )


def _references(file: File, *keys: str) -> Iterator[ExternalReference]:
    """Yield the addresses in keys."""
    from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri

    for address in dict.fromkeys(filter(None, (_text(file, key) for key in keys))):
        if _ADDRESS.fullmatch(address):
            yield ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(address))


def _text(file: File, key: str) -> str | None:
    """Return the text of a key, without what could be taken for something else; None for no text."""
    value = file.metadata.short(key)
    return quote(value, LONGEST, bare=True) if isinstance(value, str) and value.strip() else None
