"""Customers, who log in with their email address, and their orders."""

from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class CustomerManager(BaseUserManager):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "Customer":
        customer = self.model(email=self.normalize_email(email), **fields)
        customer.set_password(password)
        customer.save()
        return customer

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> "Customer":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, email: str | None) -> "Customer":
        return self.get(email=email)


class Customer(AbstractBaseUser, PermissionsMixin):
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)

    objects = CustomerManager()

    EMAIL_FIELD = USERNAME_FIELD = "email"

    def __str__(self) -> str:
        return self.email


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, related_name="orders")
    item = models.CharField(max_length=100)
    paid_at = models.DateTimeField(null=True, blank=True)
    reminded_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.item
