"""The test bench lies beside the tests that use it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from antecast.live.groups.authority import new_group


@pytest.fixture
def group(tmp_path):
    """A group with two nodes, ada and bob, and their files."""
    authority = new_group(tmp_path / "friends.group", "friends")
    for name in ("ada", "bob"):
        authority.invite(name, tmp_path / f"{name}.node")
    return authority
