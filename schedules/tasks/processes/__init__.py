"""Processes: run a program without a shell, and kill it together with everything that it has started."""

from schedules.tasks.processes.running import Ended, Identity, Limits, Program, StartError, run_program

__all__ = ["Ended", "Identity", "Limits", "Program", "StartError", "run_program"]
