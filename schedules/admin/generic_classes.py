"""Type arguments for Django's classes, such as `ModelAdmin[Job]`; imported before the classes that use them."""

import django_stubs_ext

django_stubs_ext.monkeypatch()
