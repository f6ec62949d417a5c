"""The examination of an installation, for `manage.py doctor` and `cronty doctor`."""

from collections.abc import Iterator

from schedules.management.doctor import consistency, database, host, network
from schedules.management.doctor.findings import Finding, Level

__all__ = ["Finding", "Level", "examine"]


def examine(*, reach_out: bool = True) -> Iterator[Finding]:
    """Yield the findings in the order in which they should be remedied; `reach_out` connects to other hosts."""
    yield from host.examine()
    is_usable = True
    for finding in database.examine_connection():
        is_usable &= finding.level != Level.PROBLEM
        yield finding
    if is_usable:
        yield from database.examine_content()
    yield from consistency.examine()
    if reach_out:
        yield from network.examine()
