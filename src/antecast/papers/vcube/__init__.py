"""The study of "A Communication-Efficient Causal Broadcast Protocol" (de Araujo and others).

paper.toml      the paper's figures, and full.csv, how ours stood beside them at the last full run
experiment.py   its scenarios, as pure functions of a point
measures.py     its metrics of a run
data.py         what runs gave, as rows of its tables
judgement.py    which of its figures and statements hold
study.py        the job: runs, measures, and findings
algorithm2.py   its algorithm line by line, to which the real one is held
stories.py      rules that do not keep their promise as printed, in the smallest stories that show it
"""
