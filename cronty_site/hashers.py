"""The password hasher for the secrets of OAuth clients."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class ClientSecretHasher(PBKDF2PasswordHasher):
    """One round is enough for 128 random characters, and more would let anybody keep the server busy."""

    algorithm = "client_secret_sha256"
    iterations = 1
