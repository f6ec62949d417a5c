"""What do the pages ask for, of a job and of a person?"""

from schedules.webforms.arguments import Arguments
from schedules.webforms.jobs import JobForm
from schedules.webforms.people import SettingsForm, WelcomeForm
from schedules.webforms.when import WhenForm

__all__ = ["Arguments", "JobForm", "SettingsForm", "WelcomeForm", "WhenForm"]
