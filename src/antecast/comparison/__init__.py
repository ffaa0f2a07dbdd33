"""Comparisons: one network, every protocol that can run on it, and which of them to take.

`candidates` finds who can run and what the others lack, `measures` takes the numbers of a run from its log,
`standings` sums them up over the seeds, `judgement` compares them with limits and recommends one, `words` puts
numbers into words. Pure functions; `antecast.spark.compare` makes the runs,
`antecast.reporting.compare` the page.
"""
