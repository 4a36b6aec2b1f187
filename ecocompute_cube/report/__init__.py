"""From a journal to what people read. Pure: the same bytes from the same journal."""
