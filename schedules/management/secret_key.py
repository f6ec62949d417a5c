"""Check at the start of a command that this host has the installation's secret key."""

import logging
import os
import signal
import threading
import time

from django.core.management.base import CommandError
from django.db import Error, connections

from schedules.services.installation.secret_key import ForeignSecretKeyError, require_secret_key
from schedules.worker.supervisor import growing_pauses

logger = logging.getLogger(__name__)


def refuse_foreign_secret_key() -> bool:
    """Raise CommandError if this host has another key than the installation; return False if the database does not answer."""
    try:
        require_secret_key()
    except ForeignSecretKeyError as error:
        raise CommandError(str(error)) from error
    except Error:
        return False
    return True


def stop_with_foreign_secret_key() -> None:
    """Raise CommandError for a foreign key; if the database does not answer yet, check later and stop this server then."""
    is_checked = refuse_foreign_secret_key()
    # The threads of the server open their own connections.
    connections.close_all()
    if not is_checked:
        threading.Thread(target=_refuse_later, daemon=True, name="secret-key").start()


def _refuse_later() -> None:
    for pause in growing_pauses():
        time.sleep(pause)  # noqa: TID251  (a thread that waits for the database)
        try:
            if refuse_foreign_secret_key():
                return
        except CommandError as error:
            logger.error("%s", error)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        finally:
            connections.close_all()
