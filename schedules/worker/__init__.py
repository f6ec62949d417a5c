"""The processes that run jobs; everything that touches django-q2 is here."""
