"""Secrets: encryption, references like ${secret:NAME}, the hosts they may go to, masking, and private files."""
