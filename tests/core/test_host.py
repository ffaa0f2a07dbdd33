"""The memory that a process may use: that of the machine, or less in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from antecast.core import host

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host, "_ROOT", tmp_path)
    put(tmp_path / "proc/meminfo", f"MemTotal: {64 << 20} kB\nMemAvailable:   {32 << 20} kB\n")
    return tmp_path


def put(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def limit(folder: Path, most: object, used: int = 0, cached: int = 0) -> None:
    put(folder / "memory.max", most)
    put(folder / "memory.current", used)
    put(folder / "memory.stat", f"anon 1\ninactive_file {cached}")


def test_without_limits_it_is_that_of_the_machine(root: Path) -> None:
    assert (host.allowed_memory(), host.free_memory()) == (64 * GIB, 32 * GIB)
    put(root / "proc/self/cgroup", "0::/a/b")
    limit(root / "sys/fs/cgroup/a/b", "max", GIB)
    assert (host.allowed_memory(), host.free_memory()) == (64 * GIB, 32 * GIB)


def test_the_least_limit_on_the_way_to_the_root_counts(root: Path) -> None:
    put(root / "proc/self/cgroup", "0::/a/b")
    limit(root / "sys/fs/cgroup/a/b", 3 * GIB, 2 * GIB, GIB)
    assert (host.allowed_memory(), host.free_memory()) == (3 * GIB, 2 * GIB)
    limit(root / "sys/fs/cgroup/a", 2 * GIB, 3 * GIB)
    assert (host.allowed_memory(), host.free_memory()) == (2 * GIB, 0)


def test_a_container_sees_its_limit_at_the_mount(root: Path) -> None:
    """The path may be that outside of the container."""
    put(root / "proc/self/cgroup", "0::/../../kubepods/pod1")
    limit(root / "sys/fs/cgroup", 4 * GIB, GIB)
    assert (host.allowed_memory(), host.free_memory()) == (4 * GIB, 3 * GIB)


def test_control_groups_of_version_one(root: Path) -> None:
    put(root / "proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/")
    folder = root / "sys/fs/cgroup/memory"
    put(folder / "memory.limit_in_bytes", 1 << 63)
    put(folder / "memory.usage_in_bytes", 5 * GIB)
    assert (host.allowed_memory(), host.free_memory()) == (64 * GIB, 32 * GIB)
    put(folder / "docker/abc/memory.limit_in_bytes", 2 * GIB)
    put(folder / "docker/abc/memory.usage_in_bytes", GIB)
    put(folder / "docker/abc/memory.stat", f"inactive_file 1\ntotal_inactive_file {GIB // 2}")
    assert (host.allowed_memory(), host.free_memory()) == (2 * GIB, 3 * GIB // 2)


def test_files_that_make_no_sense_are_no_limit(root: Path) -> None:
    for cgroup in ("", "0::", "words\n", "0:/:a:b"):
        put(root / "proc/self/cgroup", cgroup)
        limit(root / "sys/fs/cgroup", "much")
        assert host.allowed_memory() == 64 * GIB


def test_a_system_without_these_files_says_what_it_has(root: Path) -> None:
    (root / "proc/meminfo").unlink()
    assert host.allowed_memory() > host.free_memory() > 0
