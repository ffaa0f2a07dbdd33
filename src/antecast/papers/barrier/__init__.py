"""The room of "Causal and Δ-causal broadcast in opportunistic networks" (Guidec, Launay, Mahéo).

paper.toml      the paper's figures, and full.csv, how ours stood beside them at the last full run
experiment.py   its two networks, and the scenarios that were run on them
networks.py     those networks as files, generated or given
movement.py     the generated networks beside the paper's traces
measures.py     its metrics as queries on the event log
measured_run.py the same of one run, without Spark
fit.py          the search for the radios of its networks
judgement.py    which of its figures and statements hold
study.py        the job: networks, runs, measures, and findings
stories.py      rules that do not keep their promise as printed, in the smallest stories that show it
"""
