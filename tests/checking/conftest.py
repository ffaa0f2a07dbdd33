"""Modules beside the tests, the weakened protocols, and the tools are found by their names."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "protocols"), str(HERE.parents[1] / "tools")]
