"""Doors: the same answers on the command line, over HTTP and to assistants."""
