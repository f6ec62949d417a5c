"""Agents: the runners that prompts are given to, what they report, and how each run ended."""
