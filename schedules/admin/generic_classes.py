"""Makes Django's classes accept type arguments, as in `ModelAdmin[Job]`; imported before the classes that use them."""

import django_stubs_ext

django_stubs_ext.monkeypatch()
