"""python many_spark.py MANIFEST.jsonl RESULTS.jsonl: Spark, on this machine or by spark-submit on a cluster."""

import json
import os
import sys

import pandas
from pyspark import SparkConf
from pyspark.sql import SparkSession

import i2s_spec as i2s


def check_frames(frames):
    """Check frames of entries in a child, and yield frames of lines."""
    for frame in frames:
        records = i2s.check_in_child(frame.to_dict("records"), profile="security")
        yield pandas.DataFrame({"line": [json.dumps(record) for record in records]})


if __name__ == "__main__":
    entries = [(entry.url, entry.etag, entry.size) for entry in i2s.manifest([sys.argv[1]])]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use this Python, which has i2s_spec
    master = SparkConf().get("spark.master", "local[*, 4]")  # here a task is tried four times, as on a cluster
    spark = SparkSession.builder.master(master).appName("i2s").getOrCreate()
    frame = spark.createDataFrame(entries, "url string, etag string, size long")
    frame = frame.repartition(max(1, len(entries) // 64)).mapInPandas(check_frames, "line string")
    with open(sys.argv[2], "w", encoding="utf-8") as results:
        for row in frame.toLocalIterator(prefetchPartitions=True):  # partitions are written as they come
            results.write(row.line + "\n")
            results.flush()
    spark.stop()
