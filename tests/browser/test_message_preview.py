"""The preview of a message in the form of a job."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Visitor


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
