"""Archives of a whole installation: written on one folder, restored into an empty one."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from schedules.management import archive
from schedules.models import Secret
from schedules.secrets.encryption import unseal
from schedules.services.installation.secret_key import require_secret_key
from schedules.services.people.stored_secrets import set_secret
from schedules.services.permissions import Actor
from tests.clusters import PROJECT
from tests.factories import JobFactory, UserFactory
from tests.forks import python
from tests.management.test_backup import only_on_sqlite

pytestmark = [pytest.mark.django_db(transaction=True), only_on_sqlite]

KEY = "the-key-of-the-first-host-0123456789"
FILES = {
    "commands.toml": '[df]\ndescription = "Free space."\nprogram = "/bin/df"\n',
    ".env": "CRONTY_APPS=mine\n",
    "apps/mine/__init__.py": "",
    "apps/mine/tasks.py": "# Tasks.\n",
}


@pytest.fixture
def data(settings: LazySettings, tmp_path: Path) -> Path:
    """The data folder of an installed package, with a secret in the database."""
    folder = tmp_path / "first"
    use(settings, folder)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    settings.SECRET_KEY = KEY
    require_secret_key()
    user = UserFactory()
    set_secret(Actor(user=user), "TOKEN", "hush-hush-7", hosts=["a.example"])
    JobFactory(owner=user, task="df")
    return folder


def use(settings: LazySettings, folder: Path) -> None:
    folder.mkdir()
    settings.CRONTY_DATA, settings.CRONTY_MANAGE = folder, ["-m", "cronty_site"]
    settings.CRONTY_COMMANDS_FILE = str(folder / "commands.toml")


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    file = tmp_path / "passphrase"
    file.write_text("correct horse battery\n")
    return file


def restore(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [*python(), "manage.py", "restore", *map(str, arguments), "--slots", "skip"],
        cwd=PROJECT,
        env=inherited | {"CRONTY_DATA": str(folder), "COVERAGE_PROCESS_START": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_archive_brings_secrets_and_files_to_an_empty_folder(data, passphrase, settings, tmp_path):
    # The command of a checkout looks for it beside its own code.
    (data / ".env").unlink()
    path, second = tmp_path / "cronty.archive", tmp_path / "second"
    call_command("backup", str(path), "--all", "--passphrase-file", str(passphrase))

    done = restore(second, path, "--passphrase-file", passphrase)

    assert done.returncode == 0, done.stderr
    assert "Missing" not in done.stdout
    assert (second / "secret_key").read_text() == KEY
    assert (second / "commands.toml").read_text() == FILES["commands.toml"]
    assert (second / "apps/mine/tasks.py").read_text() == FILES["apps/mine/tasks.py"]
    with closing(sqlite3.connect(second / "cronty.sqlite3")) as database:
        (sealed,) = database.execute("SELECT sealed FROM schedules_secret").fetchone()
    settings.SECRET_KEY = (second / "secret_key").read_text()
    assert unseal(sealed, Secret.objects.get().place) == "hush-hush-7"
    assert (path.stat().st_mode & 0o077, KEY.encode() in path.read_bytes()) == (0, False)


def test_database_alone_says_that_its_key_and_its_tasks_are_missing(data, tmp_path):
    path, second = tmp_path / "cronty.sqlite3", tmp_path / "second"
    said = call_command("backup", str(path))

    done = restore(second, path)

    assert "does not hold the secret key" in said
    assert done.returncode == 0, done.stderr
    assert "Missing: its secret key." in done.stdout
    assert "Missing: the tasks df, which jobs use. Copy commands.toml and apps/" in done.stdout


def test_archive_is_not_written_unencrypted_unless_asked_for(data, tmp_path):
    path = tmp_path / "cronty.archive"

    with pytest.raises(CommandError, match=r"give --passphrase-file, or --plain"):
        call_command("backup", str(path), "--all")
    assert not path.exists()

    call_command("backup", str(path), "--all", "--plain")
    assert KEY.encode() in path.read_bytes()


def test_archive_without_its_end_or_with_another_passphrase_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "CHUNK_BYTES", 10)
    plain, sealed, found = (tmp_path / name for name in ("plain", "sealed", "found"))
    plain.write_bytes(b"0123456789" * 3)
    archive.encrypt(plain, sealed, "passphrase")
    archive.decrypt(sealed, found, "passphrase")
    assert found.read_bytes() == plain.read_bytes()

    with pytest.raises(CommandError, match=r"The passphrase is wrong, or the file is damaged\."):
        archive.decrypt(sealed, found, "another passphrase")
    sealed.write_bytes(sealed.read_bytes()[:-26])
    with pytest.raises(CommandError, match="damaged"):
        archive.decrypt(sealed, found, "passphrase")


def test_files_that_were_there_are_kept_under_another_name(data, settings, tmp_path):
    database, packed, folder = tmp_path / "database", tmp_path / "packed", tmp_path / "files"
    database.write_bytes(b"rows")
    archive.pack(database, packed)
    archive.unpack(packed, folder)
    second = tmp_path / "second"
    use(settings, second)
    (second / "secret_key").write_text("generated")
    (second / "commands.toml").write_text(FILES["commands.toml"])

    said = archive.put_in_place(folder, "now")

    assert {name: (second / name).read_text() for name in FILES} == FILES
    assert (second / "secret_key").read_text() == KEY
    assert (second / "secret_key.before-now").read_text() == "generated"
    assert [line.split(" ")[0].rpartition("/")[2] for line in said] == ["secret_key", ".env", "apps"]
