"""What is judged of a log that another system wrote, one module per model: *clocks* and *spans*.

A model is a function from what an importer reads to a `judgement.Judgement`. It does no I/O.
"""
