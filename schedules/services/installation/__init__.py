"""The installation: initial data, the secret key all hosts share, and what a local command line looks like."""
