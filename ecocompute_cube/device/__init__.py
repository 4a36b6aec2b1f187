"""Boards and clocks: what can be read, and from where."""
