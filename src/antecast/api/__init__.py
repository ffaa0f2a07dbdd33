"""The calls of the public interface: what the command line does, from Python.

Each takes what people have at hand (a path, plain values, an object made before) and says what it expects when it
gets something else. Nothing heavy is imported before it is needed.
"""

from antecast.api.audits import audit as audit
from antecast.api.audits import audit_files as audit_files
from antecast.api.comparisons import compare as compare
from antecast.api.comparisons import comparison_folder as comparison_folder
from antecast.api.reports import report as report
from antecast.api.runs import as_scenario as as_scenario
from antecast.api.runs import reproduce as reproduce
from antecast.api.runs import run as run
