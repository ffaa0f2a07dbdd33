"""The study of "Approximate causal observer" (Kulkarni, Arumugam).

paper.toml      the paper's figures, and full.csv, how ours stood beside them at the last full run
model.py        its abstract system: processes, their messages, and an observer; kernels.py has the compiled loops
experiment.py   its experiments, as pure functions of a point
judgement.py    thresholds and costs, statements.py which of its statements hold
trade_off.py    violations against delay, with the rules that are ours
study.py        the job: runs, and findings
stories.py      rules that do not keep their promise as printed, in the smallest stories that show it
"""
