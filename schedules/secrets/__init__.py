"""Secrets: encryption, references in texts, masking, and private files."""
