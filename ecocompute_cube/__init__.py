"""EcoCompute cube: does quantizing a language model save energy on this GPU?"""

__version__ = "0.1.0"
