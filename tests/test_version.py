import tomllib
from pathlib import Path

import schedules


def test_version_of_the_app_is_the_version_of_the_package():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

    assert schedules.__version__ == project["version"]
