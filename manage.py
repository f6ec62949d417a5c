#!/usr/bin/env python
"""Cronty's command line."""

import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from schedules.management.startup import without_garbage_collection
from schedules.private_files import restrict_to_owner


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
    try:
        with without_garbage_collection():
            django.setup()
    except ImproperlyConfigured as error:
        # A wrong setting is for the operator to fix; a traceback would only hide the sentence that says how.
        sys.exit(f"Cronty cannot start. {error}")
    restrict_to_owner()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
