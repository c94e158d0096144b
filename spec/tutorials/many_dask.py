"""python many_dask.py MANIFEST.jsonl RESULTS.jsonl: a Dask bag, here or at DASK_SCHEDULER_ADDRESS."""

import json
import sys

import dask.bag
from distributed import Client

import i2s_spec as i2s


def check_entry(entry):
    """Check an entry of the manifest, and return a line of the results."""
    return json.dumps(i2s.check(entry, profile="security"))


if __name__ == "__main__":
    entries = [entry.as_dict() for entry in i2s.manifest([sys.argv[1]])]
    with Client(), open(sys.argv[2], "w", encoding="utf-8") as results:
        for line in dask.bag.from_sequence(entries, partition_size=64).map(check_entry).compute():
            results.write(line + "\n")
