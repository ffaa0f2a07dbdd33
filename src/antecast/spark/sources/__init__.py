"""Data sources for Spark, written in Python: no jar, and nothing to install on a cluster but this package.

`antecast.spark.register(spark)` makes them known to a session by name. A source is thin: files are read by the
same functions that the commands use, brokers by their own clients, and rows leave as Arrow batches.
"""
