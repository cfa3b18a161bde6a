"""Files that are there in full or not at all."""

import pytest

from refimpl.experiments.atomic import write


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
    assert path.read_text() == "old"
    write(path, content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
