"""Rehearsals: what will run in the coming days, simulated with the rules of the engine; nothing is stored."""
