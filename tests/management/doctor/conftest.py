"""An installation whose settings fit together."""

import pytest
from django.conf import LazySettings

from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def installed(settings: LazySettings, tmp_path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    settings.CRONTY_DATA = tmp_path / "data"
    settings.CRONTY_URL = "http://127.0.0.1:8000"
    settings.CRONTY_HOST = "127.0.0.1"
    settings.DEBUG = False
    settings.CRONTY_OUTBOUND_TIMEOUT = PATIENCE
