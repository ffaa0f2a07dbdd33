"""The papers' experiments: what they ran and what they found, as data, and how our figures stand beside theirs.

Nothing here runs anything. `paper` reads a paper's own figures, `findings` compares one with ours, `layout` puts
them into tables; a folder for each paper holds its figures and the scenarios of its experiments. The jobs that
make the runs are in `antecast.spark.reproduce`.
"""

STUDIES = ("barrier", "cellular", "observer", "vcube", "preventive")
"""The studies, in the order they are shown."""
