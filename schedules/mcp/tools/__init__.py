"""How agents reach Cronty: three vocabularies, and a few words more, over the services."""
