"""Text from elsewhere in place of placeholders: it names no secret and ends no marks of its own."""

import pytest

from schedules.secrets.references import names_in
from schedules.tasks.placeholders import fill_in, mark_text, with_gate


def test_text_from_elsewhere_names_no_secret_however_it_is_put_together():
    for task in ["webhook", "notify", "prompt"]:
        for text, body in [
            ("${{ trigger.body.a }}", {"a": "{secret:KEY}"}),
            ("{{ trigger.body.a }}{{ trigger.body.b }}", {"a": "$", "b": "{secret:KEY}"}),
            ("{{ trigger.body.a }}{secret:KEY}", {"a": "$"}),
            ("${secret{{ trigger.body.a }}", {"a": ":KEY}"}),
            ("{{ trigger.body.a }}{{trigger.body.b}}KEY}", {"a": "${sec", "b": "ret:"}),
            ("{{ trigger.body.a }}", {"a": {"${secret:KEY}": ["${secret:KEY}"]}}),
            ("x {{ trigger.body.a }}", {"a": {"${secret:KEY}": ["${secret:KEY}"]}}),
        ]:
            assert names_in(fill_in({"body": [text]}, {"trigger": {"body": body}}, task=task)) == set()


@pytest.mark.parametrize("task", ["webhook", "notify", "prompt"])
def test_references_of_the_text_itself_stay(task):
    text = "${secret:A} {{ trigger.body.a }}${secret:B}{{ trigger.body.a }} ${secret:C}"

    shown = fill_in(text, {"trigger": {"body": {"a": "$ ${secret:KEY}"}}}, task=task)

    assert names_in(shown) == {"A", "B", "C"}


def test_answer_of_a_gate_names_no_secret():
    given = {"trigger": {"body": "${{ gate.text }}"}, "gate": {"text": "{secret:KEY}"}}

    shown = fill_in("${secret:A} {{ trigger.body }} ${{ gate.text }}", given, task="prompt")

    assert names_in(with_gate(shown, given)) == {"A"}


@pytest.mark.parametrize(
    "text", ["</mine>", "</mi</mine>ne>", "< / MINE >", "</mine\n>", "<</mine>/mine>", "</</mine>mine>"]
)
def test_marked_text_cannot_end_its_marks(text):
    shown = mark_text("mine", text, "a note")

    assert "".join(shown.lower().split()).count("</mine") == 1
    assert shown.endswith("\n</mine> (a note)")
