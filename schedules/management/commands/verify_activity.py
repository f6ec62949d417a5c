"""manage.py verify_activity PATH: check a signed export of the activity."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError

from schedules.services.activity_export import verify_lines


class Command(BaseCommand):
    help = "Check that an export of the activity is as this installation has written it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="The file, as GET /api/v1/events/export answered.")

    def handle(self, *args: Any, path: Path, **options: Any) -> None:
        try:
            with path.open(encoding="utf-8") as file:
                verdict = verify_lines(file)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: {error}.") from error
        if not verdict.is_genuine:
            raise CommandError(f"{path}: {verdict.problem}")
        self.stdout.write(f"{path}: {verdict.events:,} events, unchanged.")
