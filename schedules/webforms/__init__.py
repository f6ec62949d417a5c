"""What do the pages ask for when somebody makes or changes a job?"""

from schedules.webforms.arguments import Arguments
from schedules.webforms.jobs import JobForm
from schedules.webforms.when import WhenForm

__all__ = ["Arguments", "JobForm", "WhenForm"]
