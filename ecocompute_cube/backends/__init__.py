"""Runtimes that load an arm and decode with it."""
