"""The forms of the pages, with their base class and renderer."""

from django import forms
from django.forms.renderers import DjangoTemplates


class PageRenderer(DjangoTemplates):
    """Renders `{{ field.as_field_group }}` as label, control, help text and errors."""

    field_template_name = "schedules/forms/field.html"


class PageForm(forms.Form):
    # One instance for all forms: each renderer has its own template cache.
    default_renderer = PageRenderer()
