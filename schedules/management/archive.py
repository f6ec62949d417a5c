"""An archive of a whole installation: the database with the files that it cannot do without, encrypted or plain."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from django.conf import settings
from django.core.management.base import CommandError

DATABASE = "cronty.sqlite3"
SECRET_KEY = "secret_key"  # noqa: S105  # nosec B105  (the name of a file)
MAGIC = b"Cronty archive 1\n"
SALT_BYTES = 16
CHUNK_BYTES = 16_000_000
TAG_BYTES = 16


def places() -> dict[str, Path]:
    """Return where the files of this installation are, by their names in an archive."""
    data = Path(settings.CRONTY_DATA)
    is_checkout = settings.CRONTY_MANAGE[0].endswith("manage.py")
    return {
        SECRET_KEY: data / SECRET_KEY,
        "commands.toml": Path(settings.CRONTY_COMMANDS_FILE),
        ".env": (Path(settings.BASE_DIR) if is_checkout else data) / ".env",
        "apps": data / "apps",
    }


def pack(database: Path, target: Path) -> None:
    """Write a tar file with a copy of the database and the files of this installation."""
    with tarfile.open(target, "w") as archive:
        archive.add(database, DATABASE)
        # The key in use, also if it comes from a variable.
        key = settings.SECRET_KEY.encode()
        entry = tarfile.TarInfo(SECRET_KEY)
        entry.size, entry.mode = len(key), 0o600
        archive.addfile(entry, BytesIO(key))
        for name, place in places().items():
            if name == SECRET_KEY:
                continue
            for path in [place] if place.is_file() else sorted(place.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.add(path, str(PurePosixPath(name, *path.relative_to(place).parts)))


def unpack(source: Path, folder: Path) -> None:
    """Extract the known files of an archive; refuse anything else."""
    known = {DATABASE, *places()}
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                path = PurePosixPath(entry.name)
                if not entry.isfile() or path.parts[0] not in known or ".." in path.parts:
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
    """Move extracted files to their places, and keep what was there under another name; describe what was done."""
    done = []
    for name, place in places().items():
        source = folder / name
        if not source.exists():
            continue
        words = f"{place} is restored"
        if place.exists() and not _is_same(source, place):
            kept = place.with_name(f"{place.name}.before-{suffix}")
            os.rename(place, kept)
            words += f"; the one before is kept as {kept}"
        elif place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, place)
        done.append(f"{words}.")
    return done


def is_encrypted(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def encrypt(source: Path, target: Path, passphrase: str) -> None:
    """Encrypt a file in chunks (scrypt, AES-256-GCM); the last one is marked, so that a part of it is not taken for all."""
    salt = os.urandom(SALT_BYTES)
    cipher = _cipher(passphrase, salt)
    with source.open("rb") as plain, target.open("wb") as sealed:
        sealed.write(MAGIC + salt)
        for nonce, chunk, is_last in _chunks(plain, CHUNK_BYTES):
            sealed.write(cipher.encrypt(nonce, chunk, _mark(is_last)))


def decrypt(source: Path, target: Path, passphrase: str) -> None:
    """Decrypt a file; raise CommandError if the passphrase is wrong or the file was changed."""
    with source.open("rb") as sealed, target.open("wb") as plain:
        salt = sealed.read(len(MAGIC) + SALT_BYTES)[len(MAGIC) :]
        cipher = _cipher(passphrase, salt)
        for nonce, chunk, is_last in _chunks(sealed, CHUNK_BYTES + TAG_BYTES):
            try:
                plain.write(cipher.decrypt(nonce, chunk, _mark(is_last)))
            except import_module("cryptography.exceptions").InvalidTag as error:
                raise CommandError("The passphrase is wrong, or the file is damaged.") from error


def _chunks(file: IO[bytes], size: int) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield chunks with their nonces, and whether they are the last."""
    number, chunk = 0, file.read(size)
    while True:
        following = file.read(size)
        yield number.to_bytes(12, "big"), chunk, not following
        if not following:
            return
        number, chunk = number + 1, following


def _mark(is_last: bool) -> bytes:
    return b"last" if is_last else b"more"


def _cipher(passphrase: str, salt: bytes) -> Any:
    scrypt = import_module("cryptography.hazmat.primitives.kdf.scrypt")
    ciphers = import_module("cryptography.hazmat.primitives.ciphers.aead")
    # A new salt, so a new key for every archive: the nonces can count from 0.
    return ciphers.AESGCM(scrypt.Scrypt(salt, length=32, n=2**16, r=8, p=1).derive(passphrase.encode()))


def _is_same(left: Path, right: Path) -> bool:
    if left.is_file() and right.is_file():
        return left.read_bytes().strip() == right.read_bytes().strip()
    names = [sorted(path.relative_to(root) for path in _files(root)) for root in (left, right)]
    return names[0] == names[1] and all(_is_same(left / name, right / name) for name in names[0])


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
