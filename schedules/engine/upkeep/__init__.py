"""Upkeep: pruning, new zone data, restores from a backup, clocks that were set back, and hosts that must agree."""
