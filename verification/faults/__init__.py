"""Fault campaign: real processes, real faults, and a checker that judges the records."""
