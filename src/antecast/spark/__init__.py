"""Jobs on Spark: sweeps, and metrics of what they made. Thin: each hands batches to a pure function.

Nothing outside imports this package but the command line, so that `import antecast` needs no Java. Even
here pyspark is imported only where a session is at hand: a sweep that is planned or refused starts nothing.
"""
