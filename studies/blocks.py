"""Blocks of the pages in docs that commands write, between <!-- name --> and <!-- end of name -->."""

from pathlib import Path

from refimpl.experiments.atomic import write

DOCS = Path(__file__).parents[1] / "docs"


def split(text: str, name: str) -> tuple[str, str, str]:
    """A page's text up to the first mark, between the two, and from the second on. Raises ValueError."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    inside, end, after = rest.partition(f"<!-- end of {name} -->")
    if not begin or not end:
        raise ValueError(f"needs a page with the marks <!-- {name} --> and <!-- end of {name} -->, got none")
    return before + begin, inside, end + after


def read_block(page: Path, name: str) -> str:
    """The text of a block, without empty lines around it."""
    return split(page.read_text(encoding="utf-8"), name)[1].strip("\n")


def write_blocks(page: Path, blocks: dict[str, str]) -> None:
    """Replaces the blocks of these names, all or none. Raises ValueError if the page has no place for one."""
    text = page.read_text(encoding="utf-8")
    for name, block in blocks.items():
        before, _, after = split(text, name)
        text = "{}\n{}\n\n{}".format(before, block.strip("\n"), after)
    write(page, text)


def as_code(text: str) -> str:
    """The text as code in Markdown, indented by four."""
    return "\n".join(f"    {line}".rstrip() for line in text.strip("\n").splitlines())
