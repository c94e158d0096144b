"""python many_ray.py MANIFEST.jsonl RESULTS.jsonl: Ray, on this machine or the cluster of RAY_ADDRESS."""

import json
import sys

import ray

import i2s_spec as i2s


@ray.remote(max_retries=3)
def check_entries(entries):
    """Check entries of the manifest in a child, and return lines of the results."""
    return [json.dumps(record) + "\n" for record in i2s.check_in_child(entries, profile="security")]


if __name__ == "__main__":
    entries = [entry.as_dict() for entry in i2s.manifest([sys.argv[1]])]
    waiting = [check_entries.remote(entries[start : start + 64]) for start in range(0, len(entries), 64)]
    failed = 0
    with open(sys.argv[2], "w", encoding="utf-8") as results:
        while waiting:
            done, waiting = ray.wait(waiting)
            try:
                results.writelines(ray.get(done[0]))  # parts are written as they come
                results.flush()
            except ray.exceptions.RayError:
                failed += 1
    sys.exit(f"{failed} parts failed" if failed else 0)
