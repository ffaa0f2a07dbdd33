"""Lets the tests of this folder share `small_histories` and `published`: test modules are imported apart."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
