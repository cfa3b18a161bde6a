"""Files that are there in full or not at all."""

import os
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Writes all or nothing: to a file beside `path`, which is then renamed."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
