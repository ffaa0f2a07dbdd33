"""Lets the tests of this folder share their helpers: test modules are imported apart from each other."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
