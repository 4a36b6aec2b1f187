"""The commands: how each is spelled, and the thin door that it opens."""
