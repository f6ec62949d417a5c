"""The engine's hand-written SQL; a test compares each statement with the ORM."""
