"""Secrets: encryption, references in texts, where they may go, masking, and private files."""
