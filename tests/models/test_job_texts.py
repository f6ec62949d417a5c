"""The stored text of a job that searches look through."""

from schedules.models.job_texts import normalized, searchable_text, tag_in_text
from tests.factories import JobFactory


def test_text_has_what_people_see_and_no_secret():
    job = JobFactory.build(
        owner=None,
        name="Nightly  Backup",
        label="Straße",
        task="webhook",
        args=["https://example.org/Path"],
        kwargs={"json": {"rooms": ["Attic", 12, True, None]}, "token": "s3cret-value"},
        tags=["Home"],
    )

    text = searchable_text(job)

    assert {"nightly backup", "strasse", "https://example.org/path", "attic", "12"} <= set(text.splitlines())
    assert "s3cret" not in text
    assert "true" not in text


def test_a_tag_is_found_as_a_whole_and_not_as_a_word():
    tagged = searchable_text(JobFactory.build(owner=None, tags=["Home Office"]))
    named = searchable_text(JobFactory.build(owner=None, name="home office"))

    assert tag_in_text("home  OFFICE") in tagged
    assert tag_in_text("home") not in tagged
    assert tag_in_text("home office") not in named


def test_text_can_be_stored_whatever_the_arguments_contain():
    kwargs = {"message": "bad \ud800 \x00 text", "tags": "no list"}

    text = searchable_text(JobFactory.build(owner=None, task="notify", kwargs=kwargs))

    assert "bad text" in text
    assert "\0" not in text.encode().decode()


def test_writing_of_a_word_does_not_matter():
    assert normalized("  ＦＵＬＬ\u00a0Gießen\n") == "full giessen"
