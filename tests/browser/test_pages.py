"""Every page in a browser: no errors, and no overflow with long words."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Event, Execution, Job, Token
from tests.browser.checks import overflow
from tests.browser.conftest import Visitor, full_matrix
from tests.browser.matrix import all_pages
from tests.browser.sample_results import result_pages


@pytest.mark.verify
@pytest.mark.parametrize("mode", ["light", pytest.param("phone", marks=full_matrix)])
def test_every_page_opens_without_errors_and_does_not_overflow_with_long_words(
    visit: Callable[..., Visitor], owner: User, jobs: dict[str, Job], mode: str
):
    word = "x" * 200
    pages = all_pages(jobs) | result_pages(owner)
    for model, field in ((Job, "name"), (Job, "made_by"), (Execution, "job_name"), (Event, "subject")):
        model.objects.update(**{field: word[:150] if field == "made_by" else word})
    Event.objects.update(actor=word[:150])
    Token.objects.update(name=word[:100])
    Execution.objects.filter(status="waiting").update(
        leased_to=word[:150], lease_until=clock.now() + timedelta(hours=1)
    )
    visitor = visit(mode)
    headings, wide = {}, []

    for name, path in pages.items():
        page = visitor.open(path)
        headings[name] = visitor.page.locator("h1").count()
        if overflow(page) > 0:
            wide.append(name)

    assert set(headings.values()) == {1}, headings
    assert wide == []
    assert visitor.complaints == []
