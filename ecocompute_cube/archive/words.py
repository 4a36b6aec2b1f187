"""Text that nobody vouches for, made harmless for where it is going."""

from __future__ import annotations

import html
import json
import re
from typing import Final

from ecocompute_cube.model.base import printable

#: What begins markup anywhere; what does so at the beginning of a line, maybe after a number.
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]|~$]|^[#+=-]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")


def one_line(text: str, limit: int = 300) -> str:
    """``text`` on one line, control and direction characters spelt out, cut at ``limit``."""
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def as_html(text: str) -> str:
    """For a page: no tag, no entity of its own."""
    return html.escape(one_line(text, limit=5000))


def as_markdown(text: str) -> str:
    """For Markdown: no markup and no HTML of its own."""
    text = one_line(text, limit=5000)
    escaped = _MARKDOWN.sub(lambda found: f"\\{found[0]}", text)
    return html.escape(escaped, quote=False)


def as_json(value: object) -> bytes:
    """For a file that may end up inside a page: sorted, finite, and without a ``<``.

    Raises ValueError for NaN or infinity.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return (text.replace("<", "\\u003c") + "\n").encode()
