"""A static site about quantization and energy: what was measured, and answers worked out on it."""
