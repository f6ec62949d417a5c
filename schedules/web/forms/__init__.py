"""The forms of the pages."""

from schedules.tasks.forms.arguments import Arguments
from schedules.web.forms.jobs import JobForm
from schedules.web.forms.people import SettingsForm, WelcomeForm
from schedules.web.forms.when import WhenForm

__all__ = ["Arguments", "JobForm", "SettingsForm", "WelcomeForm", "WhenForm"]
