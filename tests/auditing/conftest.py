"""Lets the tests of this folder share `sound_logs`: test modules are imported apart from each other."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))
