"""The study of "A scalable causal broadcast that tolerates dynamics of mobile networks" (Wilhelm, Arantes, Sens).

paper.toml      the paper's figures, and full.csv, how ours stood beside them at the last full run
experiment.py   its scenarios, as pure functions of a point
measures.py     its metrics of a run
judgement.py    which of its figures and statements hold
study.py        the job: runs, measures, and findings
cells.py        stations and hosts whose frames arrive when a story says so
stories.py      rules that do not keep their promise as printed, in the smallest stories that show it
"""
