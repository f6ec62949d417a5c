"""Programs of the operator, run without a shell and killed with everything that they have started."""

from schedules.tasks.processes.running import Ended, Identity, Limits, Program, StartError, run_program

__all__ = ["Ended", "Identity", "Limits", "Program", "StartError", "run_program"]
