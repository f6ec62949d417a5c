"""The preview of a message in the form of a job."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Visitor, full_matrix


def test_message_is_previewed_while_it_is_typed(visit: Callable[..., Visitor]):
    visitor = visit("light")
    page = visitor.open("/jobs/new/")

    page.fill("#id_name", "Bins")
    page.fill("#id_phrase", "every day at 9am")
    page.fill("#id_notify-message", "{{ job.name }} at {{ run.time }}")
    expect(page.locator("#message-preview blockquote")).to_have_text("Bins at 09:00")
    page.fill("#id_name", "Glass")
    expect(page.locator("#message-preview blockquote")).to_have_text("Glass at 09:00")

    assert visitor.complaints == []


@full_matrix
def test_lost_session_leaves_what_is_typed_on_the_page(visit: Callable[..., Visitor]):
    page = visit("light").open("/jobs/new/")
    page.fill("#id_name", "Bins")
    page.context.clear_cookies(name="sessionid")

    with page.expect_response(lambda answer: "/jobs/message/" in answer.url) as refused:
        page.fill("#id_notify-message", "Take them out")
    assert refused.value.status == 401

    expect(page.locator("#logged-out")).to_be_visible()
    expect(page).to_have_url(re.compile("/jobs/new/$"))
    expect(page.locator("#id_notify-message")).to_have_value("Take them out")
