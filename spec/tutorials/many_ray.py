"""python many_ray.py MANIFEST.jsonl RESULTS.jsonl: Ray Data, on this machine or the cluster of RAY_ADDRESS."""

import json
import sys

import ray

import i2s_spec as i2s


def check_batch(batch):
    """Check a batch: it has columns of entries, each a NumPy array; the result has a column of lines."""
    rows = zip(*(column.tolist() for column in batch.values()), strict=True)
    return {"line": [json.dumps(i2s.check(dict(zip(batch, row, strict=True)), profile="security")) for row in rows]}


if __name__ == "__main__":
    entries = [entry.as_dict() for entry in i2s.manifest([sys.argv[1]])]
    with open(sys.argv[2], "w", encoding="utf-8") as results:
        for row in ray.data.from_items(entries).map_batches(check_batch, batch_size=64).iter_rows():
            results.write(row["line"] + "\n")
