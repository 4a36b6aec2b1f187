"""``ecocompute doctor``: can this machine measure, how well, and what to type if not."""

from ecocompute_cube.doctor.examine import Machine, Needs, examine
from ecocompute_cube.doctor.text import as_text

__all__ = ["Machine", "Needs", "as_text", "examine"]
