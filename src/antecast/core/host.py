"""What this process may use of the machine it runs on: a container may have less than the machine has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def free_memory() -> int:
    """Bytes that this process can still get; what files take of them counts as free."""
    machine = _meminfo("MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return min([machine, *(max(0, limit - used) for limit, used in _limits())])


def allowed_memory() -> int:
    """Bytes that this process and its children may use together: those of the machine, or of its container."""
    machine = _meminfo("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *(limit for limit, _ in _limits())])


def _meminfo(name: str) -> int | None:
    with suppress(OSError, IndexError, ValueError):
        for line in (_ROOT / "proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _limits() -> list[tuple[int, int]]:
    """The limit of each control group that this process is in, and what its processes use without files."""
    found = []
    for folder, limit, used, files in _groups():
        with suppress(OSError, ValueError):  # "max" is none
            most, now = int((folder / limit).read_text()), int((folder / used).read_text())
            found.append((most, max(0, now - _cached(folder, files))))
    return found


def _groups() -> list[tuple[Path, str, str, str]]:
    """The folders of our control groups up to the root, and the names of their files, of either version."""
    found = []
    with suppress(OSError, ValueError):
        for line in (_ROOT / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds == "":
                mount, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
            elif "memory" in kinds.split(","):
                mount = "sys/fs/cgroup/memory"
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            else:
                continue
            place = PurePosixPath(path.lstrip("/"))
            # In a container the path may be that outside of it; then only the mount itself is there.
            found += [(_ROOT / mount / each, *names) for each in (place, *place.parents)]
    return list(dict.fromkeys(found))


def _cached(folder: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
