"""How many cores this process may use."""

import math
from pathlib import Path

import psutil

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_OLD_QUOTA = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_OLD_PERIOD = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable_cores() -> int:
    """Return the physical cores that the machine, the affinity and the container leave us."""
    usable = len(psutil.Process().cpu_affinity() or [0])
    physical = psutil.cpu_count(logical=False) or usable
    return max(1, min(usable, physical, _container_cores()))


def _container_cores() -> int:
    for read in (_quota, _old_quota):
        try:
            quota, period = read()
            if int(quota) > 0:
                return math.ceil(int(quota) / int(period))
        except (OSError, ValueError):
            continue
    return 1 << 16  # no limit


def _quota() -> tuple[str, str]:
    quota, period = _QUOTA.read_text().split()
    return quota, period


def _old_quota() -> tuple[str, str]:
    return _OLD_QUOTA.read_text(), _OLD_PERIOD.read_text()
