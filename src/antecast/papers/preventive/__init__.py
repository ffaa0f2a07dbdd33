"""The study of "Breaking the scalability barrier of causal broadcast for large and dynamic systems" (Nédelec and
others).

paper.toml      the paper's figures, and full.csv, how ours stood beside them at the last full run
experiment.py   its experiments, as pure functions of a point
judgement.py    which of its figures and statements hold
study.py        the job: runs, and findings
stories.py      rules that do not keep their promise as printed, in the smallest stories that show it
"""
