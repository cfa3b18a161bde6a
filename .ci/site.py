"""What mkdocs.yml cannot say: pages that are not in docs/, and links that leave it.

README.md is the first page of the site; CONTRIBUTING.md, CHANGELOG.md and the notebook are pages too. Whatever
else a page links to outside of docs/ is copied into the site: as it is if a browser shows it, else as text.
"""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {  # by their place here, that in the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/tutorial.ipynb": "tutorial.md",
}
SHOWN = {".html", ".js", ".mjs"}
THE_PAGE = "examples/port/index.html"
LINK = re.compile(r"(?<=\]\()[^()#:\s]+(?=[)#])")


def on_files(files, config):
    """MkDocs calls this with the files of docs/."""
    for source, uri in PAGES.items():
        path = ROOT / source
        made = {"content": page_of(path)} if path.suffix == ".ipynb" else {"abs_src_path": str(path)}
        files.append(File.generated(config, uri, **made))
    page = (ROOT / THE_PAGE).read_text(encoding="utf-8").replace("../../README.md", "../../index.html")
    files.append(File.generated(config, THE_PAGE, content=page))
    copied("examples/port/resilient.js", files, config)  # which it loads
    return files


def page_of(path):
    """A notebook as Markdown: its text, its code, and below each cell what is kept of its output."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            found = output.get("data") or {"text/plain": output["text"]}
            if "image/png" in found:
                png = "".join(found["image/png"]).replace("\n", "")
                parts.append(f"![What the code above draws](data:image/png;base64,{png})")
            else:
                parts.append(f"```text\n{''.join(found['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts)


def on_page_markdown(markdown, page, config, files):
    """MkDocs calls this with the text of each page; here its links are made those of the site."""
    uri = page.file.src_uri
    source = {place: name for name, place in PAGES.items()}.get(uri, f"docs/{uri}")

    def in_site(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[0]))
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
        elif target in PAGES:
            target = PAGES[target]
        elif (ROOT / target).is_file():
            target = copied(target, files, config)
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    return LINK.sub(in_site, markdown)


def copied(source, files, config):
    """The place in the site of a file that is copied into it."""
    uri = source if Path(source).suffix in SHOWN else f"{source}.txt"
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    return uri
