"""From a journal to what may be said. Pure: no clock, no board, no network."""
