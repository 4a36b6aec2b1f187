"""Benchmarks that need a board."""
