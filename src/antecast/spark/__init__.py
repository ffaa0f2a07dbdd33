"""Jobs on Spark: sweeps, audits, metrics, contacts, the observer. Thin: each hands batches to a pure function.

Only the papers and the command line import this package, so that `import antecast` needs no Java. Even
here pyspark is imported only where a session is at hand: a sweep that is planned or refused starts nothing.
"""
