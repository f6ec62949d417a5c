"""manage.py doctor: examine the installation, and suggest remedies."""

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from schedules.limits import strip_unprintable
from schedules.management.base_command import CrontyCommand
from schedules.management.doctor import Finding, Level, consistency, database, host, network
from schedules.models.counting import counted


class Command(CrontyCommand):
    help = (
        "Examine database, clock, clusters, disk, files, settings and network. Exits 1 if there is a problem."
    )
    # The doctor runs the checks itself, as part of its report.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
        parser.add_argument("--offline", action="store_true", help="do not connect to other hosts")
        parser.add_argument("--strict", action="store_true", help="exit 1 for warnings, too")

    def handle(self, *args: Any, as_json: bool, offline: bool, strict: bool, **options: Any) -> None:
        findings = []
        for finding in examine(reach_out=not offline):
            findings.append(finding)
            if not as_json:
                self._print(finding)
        counts = Counter(finding.level for finding in findings)
        if as_json:
            summary = {str(level): counts[level] for level in Level}
            report = {"summary": summary, "findings": [asdict(finding) for finding in findings]}
            self.stdout.write(json.dumps(report, indent=1))
        else:
            problems, warnings = (
                counted(counts[Level.PROBLEM], "problem"),
                counted(counts[Level.WARNING], "warning"),
            )
            self.stdout.write(f"\n{problems}, {warnings}.")
        if counts[Level.PROBLEM] or (strict and counts[Level.WARNING]):
            sys.exit(1)

    def _print(self, finding: Finding) -> None:
        style = {
            Level.OK: self.style.SUCCESS,
            Level.WARNING: self.style.WARNING,
            Level.PROBLEM: self.style.ERROR,
        }
        # It may quote a file or another host, with control characters for a terminal.
        message, remedy = strip_unprintable(finding.message), strip_unprintable(finding.remedy)
        self.stdout.write(f"{style[finding.level](f'{finding.level:8}')} {finding.check:12} {message}")
        if remedy:
            self.stdout.write(f"{'':21} → {remedy}")
        self.stdout.flush()


def examine(*, reach_out: bool = True) -> Iterator[Finding]:
    """Yield the findings, the most basic first; `reach_out` allows connections to other hosts."""
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
