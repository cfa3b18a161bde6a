"""studies/blocks.py: what commands write into the pages of docs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from blocks import as_code, read_block, write_blocks

PAGE = "above\n<!-- a -->\n\nold\n\n<!-- end of a -->\nbetween\n<!-- b c -->\n<!-- end of b c -->\nbelow\n"


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_blocks_go_between_their_marks_and_nowhere_else(page):
    write_blocks(page, {"b c": as_code("\n1 2\n\n3\n"), "a": "new\n"})
    expected = PAGE.replace("old", "new").replace("<!-- b c -->\n", "<!-- b c -->\n\n    1 2\n\n    3\n\n")
    assert page.read_text(encoding="utf-8") == expected
    assert (read_block(page, "a"), read_block(page, "b c")) == ("new", "    1 2\n\n    3")
    write_blocks(page, {"a": "new", "b c": as_code("1 2\n\n3")})
    assert page.read_text(encoding="utf-8") == expected


def test_a_block_that_the_page_lacks_is_named_and_nothing_is_written(page):
    with pytest.raises(ValueError, match="with the marks <!-- b --> and <!-- end of b -->, got none"):
        write_blocks(page, {"a": "new", "b": "new"})
    assert page.read_text(encoding="utf-8") == PAGE
