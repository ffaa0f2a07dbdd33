"""The command line: one file per subcommand.

Exit codes: 0 fine, 1 a violation of what was promised, 2 bad usage, configuration or input,
3 inconclusive, 130 interrupted. Results go to standard output, everything else to standard error.
"""

from antecast.cli.app import main

__all__ = ["main"]
