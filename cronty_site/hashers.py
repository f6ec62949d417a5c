"""The hash of the secrets of OAuth clients."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class ClientSecretHasher(PBKDF2PasswordHasher):
    """One round: nobody can guess 128 random characters, and anybody can make the server check one."""

    algorithm = "client_secret_sha256"
    iterations = 1
