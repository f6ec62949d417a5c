"""manage.py adopt_secret_key: make this host's secret key the installation's."""

from typing import Any

from django.core.management.base import CommandError

from schedules.management.base_command import CrontyCommand
from schedules.management.database import readable_database
from schedules.services.installation.secret_key import SecretKeyNotSharedError, adopt_secret_key


class Command(CrontyCommand):
    help = "Use this host's secret key for the installation, when the old one is lost; logins and tokens made with that one become invalid."

    def handle(self, *args: Any, **options: Any) -> str:
        message = "This host's secret key is now the installation's: give it to the other hosts, and issue new tokens."
        try:
            with readable_database():
                lost = adopt_secret_key()
        except SecretKeyNotSharedError as error:
            raise CommandError(str(error)) from error
        if lost:
            message += f" Write these secrets again, because no known key can read them: {', '.join(lost)}."
        return message
