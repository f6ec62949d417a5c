"""The reference of the API: every operation of its document, with a form that sends it."""

import json
import re

from django.test import Client


def test_page_has_every_operation_of_the_document(web: Client):
    document = json.loads(web.get("/api/v1/openapi.json").content)
    page = web.get("/api/").content.decode()

    operations = [
        (operation["operationId"], method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    forms = re.findall(r'data-method="(\w+)"\s+data-path="([^"]+)"', page)
    assert {(method, path) for _, method, path in operations} == set(forms)
    assert all(f'id="{name}"' in page for name, _, _ in operations)
    assert "api.js" in page


def test_page_asks_for_a_login(db: None):
    assert Client().get("/api/")["Location"].startswith("/login/")
