"""examples/port/inline.py: the page is one file, and holds the port as it is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "port"))

import inline


def test_the_page_holds_the_port_as_it_is():
    page = inline.PAGE.read_text(encoding="utf-8")
    same = page == inline.inlined(page, inline.PORT.read_text(encoding="utf-8"))
    assert same, "resilient.js has changed: run python examples/port/inline.py"


def test_another_port_takes_the_place_of_the_first():
    before, after = "<main>\n<script>page\n</script>\n" + inline.OPENING, "</script>\n</html>\n"
    assert inline.inlined(before + "old\nport\n" + after, "new\n") == before + "new\n" + after
