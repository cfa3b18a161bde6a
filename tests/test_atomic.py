"""Files that are there in full or not at all."""

from pathlib import Path

import pytest

from refimpl.experiments import atomic
from refimpl.experiments.atomic import remove, write


@pytest.mark.parametrize("content", ["new", b"\x89PNG"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch, content):
    path = tmp_path / "result.json"
    write(path, "old")
    write_bytes = type(path).write_bytes

    def full_disk(self, data):
        write_bytes(self, data[:1])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "write_bytes", full_disk)
        with pytest.raises(OSError, match="no space"):
            write(path, content)
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text(encoding="utf-8") == "old"
    write(path, content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(("name", "change"), [("replace", lambda path: write(path, "new")), ("unlink", remove)])
def test_a_file_that_somebody_reads_is_waited_for(tmp_path, monkeypatch, name, change):
    """On Windows a file that is open can be neither replaced nor removed."""
    path, tries, done = tmp_path / "run.progress", [], getattr(Path, name)
    path.write_bytes(b"old")

    def denied_twice(*paths):
        tries.append(paths)
        if len(tries) <= 2:
            raise PermissionError(13, "it is being used by another process")
        return done(*paths)

    monkeypatch.setattr(atomic.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Path, name, denied_twice)
    change(path)
    assert len(tries) == 3
    assert not path.exists() or path.read_bytes() == b"new"


def test_what_stays_denied_is_an_error_in_writing_and_none_in_removing(tmp_path, monkeypatch):
    path = tmp_path / "run.progress"
    path.write_bytes(b"old")

    def denied(*paths):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Path, "unlink", denied)
    remove(path)
    monkeypatch.setattr(Path, "replace", denied)
    with pytest.raises(OSError, match="Permission denied") as caught:
        write(path, "new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
