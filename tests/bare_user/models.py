"""A user without staff, superusers, an email address or a column `is_active`."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models


class Member(AbstractBaseUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    handle = models.CharField(max_length=300, unique=True)

    objects = BaseUserManager()

    USERNAME_FIELD = "handle"

    def __str__(self) -> str:
        return self.handle
