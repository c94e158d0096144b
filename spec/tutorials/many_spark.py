"""python many_spark.py MANIFEST.jsonl RESULTS.jsonl: Spark, on this machine or by spark-submit on a cluster."""

import json
import os
import sys

import pandas
from pyspark.sql import SparkSession

import i2s_spec as i2s


def check_frames(frames):
    """Check frames of entries, one after another, and yield frames of lines."""
    for frame in frames:
        lines = [json.dumps(i2s.check(row, profile="security")) for row in frame.to_dict("records")]
        yield pandas.DataFrame({"line": lines})


if __name__ == "__main__":
    entries = [(entry.url, entry.etag, entry.size) for entry in i2s.manifest([sys.argv[1]])]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use this Python, which has i2s_spec
    spark = SparkSession.builder.appName("i2s").getOrCreate()
    frame = spark.createDataFrame(entries, "url string, etag string, size long")
    with open(sys.argv[2], "w", encoding="utf-8") as results:
        for row in frame.mapInPandas(check_frames, "line string").toLocalIterator():
            results.write(row.line + "\n")
    spark.stop()
