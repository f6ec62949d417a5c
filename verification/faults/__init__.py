"""The proof of the worst day: real processes, real faults, and a checker that judges what is left."""
