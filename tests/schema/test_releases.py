"""The known releases are consistent: the declared size of a file equals the size of its inventory, to the byte."""

from __future__ import annotations

import pytest

from i2s_spec.schema.architectures import ARCHITECTURES, Hyperparameters
from i2s_spec.schema.keys import OPTIONAL
from i2s_spec.schema.releases import RELEASES, Release
from i2s_spec.schema.types import BY_NAME, padded

#: Vocabulary and head width of each model.
VOCABULARY = {
    "bitnet-b1.58-2B-4T": (128256, 128),
    "bitnet-25-2B-4T": (128256, 128),
    "bitnet-b1.58-2B-4T-embed-q6_k": (128256, 128),
    "bitnet_b1_58-large": (32002, 96),
    "bitnet_b1_58-3B": (32002, 100),
    "Llama3-8B-1.58-100B-tokens": (128256, 128),
    "Falcon3-7B-Instruct-1.58bit": (131072, 256),
    "bitnet-embedding-0.6b": (151936, 128),
    "bitnet-embedding-270m": (262144, 256),
}


def sizes(release: Release) -> Hyperparameters:
    model = release.model
    vocab, head = VOCABULARY[release.name]
    return Hyperparameters(
        layers=model["block_count"], embd=model["embedding_length"], ff=model["feed_forward_length"],
        heads=model["attention.head_count"], heads_kv=model["attention.head_count_kv"], head_dim=head, value_dim=head,
        vocab=vocab,
    )  # fmt: skip


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_data_section_is_what_the_inventory_takes(release: Release) -> None:
    wide = next(name for name, _ in release.types if name not in ("F32", "I2_S"))
    untied = dict(release.types)[wide] == 2
    total, counts = 0, dict.fromkeys(dict(release.types), 0)
    for placed in ARCHITECTURES[release.architecture].tensors(sizes(release)):
        if placed.spec.need == OPTIONAL and not (placed.name == "output.weight" and untied):
            continue
        kind = wide if placed.spec.role in ("embedding", "head") else placed.spec.usual
        total += padded(BY_NAME[kind].nbytes(placed.ne), 32)
        counts[kind] += 1
    assert total == release.data
    assert counts == dict(release.types)
    assert sum(counts.values()) == release.tensors


def test_a_size_means_one_release() -> None:
    known = [release.size for release in RELEASES if release.size is not None]
    assert len(set(known)) == len(known)
