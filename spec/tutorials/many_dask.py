"""python many_dask.py MANIFEST.jsonl RESULTS.jsonl: Dask, here or at DASK_SCHEDULER_ADDRESS."""

import json
import sys

from distributed import Client, as_completed

import i2s_spec as i2s


def check_entries(entries):
    """Check entries of the manifest in a child, and return lines of the results."""
    return [json.dumps(record) + "\n" for record in i2s.check_in_child(entries, profile="security")]


if __name__ == "__main__":
    entries = [entry.as_dict() for entry in i2s.manifest([sys.argv[1]])]
    parts = [entries[start : start + 64] for start in range(0, len(entries), 64)]
    failed = 0
    with Client() as client, open(sys.argv[2], "w", encoding="utf-8") as results:
        for future in as_completed(client.map(check_entries, parts, retries=3)):  # parts are written as they come
            if future.status == "finished":
                results.writelines(future.result())
                results.flush()
            else:
                failed += 1
    sys.exit(f"{failed} parts failed" if failed else 0)
