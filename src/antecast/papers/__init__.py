"""A folder per paper: what it ran and found, our figures beside its own, and the stories of what it left open.

A folder has the paper's figures as data, its experiments, measures, judgement and stories. What they share lies
here:

paper.py           reads a paper's own figures
findings.py        one figure or statement of a paper, ours beside it, and whether they agree
layout.py          findings as tables for people
full.py            the marks of the last run at the papers' sizes, kept with the program
job.py             what a study works with on Spark: sweeps, and maps of pure functions, both resumable
ahead.py           compiles the engines of later studies while the first one runs
reproduce.py       makes a study: `reproduce("barrier", quick=True)`
output.py          the files of its results
demonstration.py   a story played by the printed rule and by ours; stage.py has nodes and links for it
left_open.py       all stories, and the page that tells them

Papers stand above Spark: only the command line and reports import them.
"""

STUDIES = ("barrier", "cellular", "observer", "vcube", "preventive")
"""The studies, in the order they are shown."""
