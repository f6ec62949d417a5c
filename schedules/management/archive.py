"""Pack and unpack archives of a whole installation: the database and the files that it needs, encrypted or plain."""

import os
import shutil
import sys
import tarfile
from getpass import getpass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from django.conf import settings
from django.core.management.base import CommandError

DATABASE = "cronty.sqlite3"
SECRET_KEY = "secret_key"  # noqa: S105  # nosec B105  (the name of a file)
MAGIC = b"Cronty archive 1\n"
SALT_BYTES = 16
TAG_BYTES = 16
# A fixed nonce is safe, because each archive has a new salt and so a new key.
NONCE = bytes(12)
CHUNK_BYTES = 16_000_000
SHORTEST_PASSPHRASE = 12


def places() -> dict[str, Path]:
    """Return where the files of this installation are, by their names in an archive."""
    data = Path(settings.CRONTY_DATA)
    is_checkout = settings.CRONTY_MANAGE[0].endswith("manage.py")
    return {
        SECRET_KEY: data / SECRET_KEY,
        "commands.toml": Path(settings.CRONTY_COMMANDS_FILE),
        "runners.toml": Path(settings.CRONTY_RUNNERS_FILE),
        "apprise.toml": Path(settings.CRONTY_APPRISE_FILE),
        ".env": (Path(settings.BASE_DIR) if is_checkout else data) / ".env",
        "apps": data / "apps",
    }


def pack(database: Path, target: Path) -> None:
    """Write a tar file with a copy of the database and the files of this installation."""
    with tarfile.open(target, "w") as archive:
        archive.add(database, DATABASE)
        # The key in use, which may come from a variable.
        key = settings.SECRET_KEY.encode()
        entry = tarfile.TarInfo(SECRET_KEY)
        entry.size, entry.mode = len(key), 0o600
        archive.addfile(entry, BytesIO(key))
        for name, place in places().items():
            if name == SECRET_KEY:
                continue
            for inner, path in _files(place).items():
                archive.add(path, str(PurePosixPath(name, inner)))


def unpack(source: Path, folder: Path) -> None:
    """Extract the known files of an archive; refuse anything else."""
    names = {DATABASE, *places()}
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                path = PurePosixPath(entry.name)
                if not entry.isfile() or path.parts[0] not in names or ".." in path.parts:
                    raise CommandError(f"The archive holds {entry.name!r}, which does not belong to Cronty.")
                content: Any = archive.extractfile(entry)
                target = folder.joinpath(*path.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)
    except tarfile.TarError as error:
        raise CommandError(f"The archive is damaged: {error}") from error
    if not (folder / DATABASE).is_file():
        raise CommandError("The archive holds no database.")


def put_in_place(folder: Path, suffix: str) -> list[str]:
    """Move extracted files to their places, and keep the old ones under another name; return messages for the operator."""
    messages = []
    for name, place in places().items():
        source = folder / name
        if not source.exists() or (place.exists() and _contents(source) == _contents(place)):
            continue
        message = f"{place} is restored"
        if place.exists():
            old = place.with_name(f"{place.name}.before-{suffix}")
            os.rename(place, old)
            message += f"; the one before is kept as {old}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, place)
        messages.append(f"{message}.")
    return messages


def is_encrypted(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def encrypt(source: Path, target: Path, passphrase: str) -> None:
    """Encrypt a file with a key derived from a passphrase (scrypt, AES-256-GCM)."""
    salt = os.urandom(SALT_BYTES)
    encryptor = Cipher(_algorithm(passphrase, salt), modes.GCM(NONCE)).encryptor()
    with source.open("rb") as plain, target.open("wb") as sealed:
        sealed.write(MAGIC + salt)
        while chunk := plain.read(CHUNK_BYTES):
            sealed.write(encryptor.update(chunk))
        sealed.write(encryptor.finalize() + encryptor.tag)


def decrypt(source: Path, target: Path, passphrase: str) -> None:
    """Decrypt a file; raise CommandError if the passphrase is wrong or the file was changed or cut off."""
    end = source.stat().st_size - TAG_BYTES
    with source.open("rb") as sealed, target.open("wb") as plain:
        salt = sealed.read(len(MAGIC) + SALT_BYTES)[len(MAGIC) :]
        decryptor = Cipher(_algorithm(passphrase, salt), modes.GCM(NONCE)).decryptor()
        while chunk := sealed.read(max(0, min(CHUNK_BYTES, end - sealed.tell()))):
            plain.write(decryptor.update(chunk))
        try:
            decryptor.finalize_with_tag(sealed.read(TAG_BYTES))
        except (InvalidTag, ValueError) as error:
            raise CommandError("The passphrase is wrong, or the file is damaged.") from error


def _algorithm(passphrase: str, salt: bytes) -> AES256:
    return AES256(Scrypt(salt, length=32, n=2**16, r=8, p=1).derive(passphrase.encode()))


def read_passphrase(file: Path | None, *, if_no_terminal: str, is_new: bool = False) -> str:
    """Read the passphrase from the file, or ask for it; without a terminal, raise CommandError with this message."""
    if file:
        try:
            passphrase = file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--passphrase-file: {file} cannot be read ({error}).") from error
    elif sys.stdin.isatty():
        passphrase = getpass("Passphrase: ")
        if is_new and getpass("Again: ") != passphrase:
            raise CommandError("The two differ: nothing was written.")
    else:
        raise CommandError(if_no_terminal)
    if is_new and len(passphrase) < SHORTEST_PASSPHRASE:
        raise CommandError(f"The passphrase is too short: use at least {SHORTEST_PASSPHRASE} characters.")
    return passphrase


def _files(place: Path) -> dict[Path, Path]:
    """Return the files of a folder by relative path, or a single file; compiled code is left out."""
    paths = [place] if place.is_file() else sorted(place.rglob("*"))
    return {
        path.relative_to(place): path for path in paths if path.is_file() and "__pycache__" not in path.parts
    }


def _contents(place: Path) -> dict[Path, bytes]:
    return {inner: path.read_bytes().strip() for inner, path in _files(place).items()}
