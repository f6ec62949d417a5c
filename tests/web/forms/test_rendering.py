from django import forms
from django.core.exceptions import ValidationError
from django.utils.safestring import mark_safe

from schedules.web.forms import PageForm

EVIL = "<script>\"&'</script>"


def refuse(text: str) -> None:
    raise ValidationError("Say more.")


class Asked(PageForm):
    plain = forms.CharField(help_text=EVIL)
    marked = forms.CharField(help_text=mark_safe("<ul><li>Long</li></ul>"), validators=[refuse, refuse])


def test_field_shows_its_errors_as_text():
    form = Asked({"marked": "short"})

    assert '<p class="err" id="id_plain_error">This field is required.</p>' in form["plain"].as_field_group()
    assert ">Say more. Say more.</p>" in form["marked"].as_field_group()


def test_help_text_is_escaped_unless_it_is_marked_as_safe():
    form = Asked()

    assert "<script" not in form["plain"].as_field_group()
    assert "<ul><li>Long</li></ul>" in form["marked"].as_field_group()


def test_field_references_its_help_text_and_errors_for_screen_readers():
    shown = Asked({"marked": "short"})["marked"].as_field_group()

    assert 'aria-describedby="id_marked_helptext id_marked_error"' in shown
    assert 'aria-invalid="true"' in shown
    assert 'id="id_marked_helptext"' in shown
    assert 'id="id_marked_error"' in shown
