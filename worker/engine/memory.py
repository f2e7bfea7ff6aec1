"""How much memory there is."""

from pathlib import Path

import psutil

# Limit, usage, and the statistic that says how much of the usage is cache that can be dropped.
_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def available_bytes() -> int:
    """Return the memory that can be had now: the machine's, or the container's if that is less."""
    available = int(psutil.virtual_memory().available)
    for limit_file, usage_file, cache in _CGROUP_FILES:
        try:
            limit = Path(limit_file).read_text().strip()
            usage = int(Path(usage_file).read_text())
            usage -= _statistic(Path(usage_file).with_name("memory.stat"), cache)
        except (OSError, ValueError):
            continue
        if limit.isdecimal():
            available = min(available, max(0, int(limit) - usage))
    return available


def _statistic(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def in_words(count: float) -> str:
    """Return a number of bytes for people, such as ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
