"""Writes resilient.js into index.html, so that the page is one file: `python examples/port/inline.py`."""

from pathlib import Path

PAGE = Path(__file__).with_name("index.html")
PORT = Path(__file__).with_name("resilient.js")
OPENING, CLOSING = '<script id="port">\n', "</script>\n"


def inlined(page: str, port: str) -> str:
    """The text of the page with `port` as the whole of its script `port`."""
    before, _, after = page.partition(OPENING)
    return before + OPENING + port + after[after.index(CLOSING) :]


if __name__ == "__main__":
    page = inlined(PAGE.read_text(encoding="utf-8"), PORT.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
