"""The processes that run jobs; only this package uses django-q2."""
