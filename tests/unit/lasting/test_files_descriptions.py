"""A shelf of files keeps what namespaces are, by their fingerprints."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kvtier.server.lasting.files import FileShelf

FINGERPRINT = "0f" * 32


def test_descriptions_are_kept_by_fingerprint(shelf: FileShelf) -> None:
    """The last one counts; a forgotten one is gone, and forgetting again does nothing."""
    other = "e1" * 32
    shelf.describe(FINGERPRINT, b"first")
    shelf.describe(FINGERPRINT, b"second")
    shelf.describe(other, b"other")
    before = shelf.descriptions()
    shelf.forget(FINGERPRINT)
    shelf.forget(FINGERPRINT)

    assert before == {FINGERPRINT: b"second", other: b"other"}
    assert shelf.descriptions() == {other: b"other"}


@pytest.mark.parametrize("fingerprint", ["", "../x", "0F" * 32, "0f" * 31])
def test_a_fingerprint_that_is_none_is_refused(shelf: FileShelf, fingerprint: str) -> None:
    """It becomes a part of a path."""
    with pytest.raises(ValueError, match="no fingerprint"):
        shelf.describe(fingerprint, b"x")
    with pytest.raises(ValueError, match="no fingerprint"):
        shelf.forget(fingerprint)


def test_descriptions_that_cannot_be_read_are_passed_over_and_told(
    shelf: FileShelf, root: Path
) -> None:
    """One that is far too long, a link and a directory; other files are not looked at."""
    shelf.describe(FINGERPRINT, b"good")
    (root / "namespaces" / ("01" * 32)).write_bytes(bytes((1 << 20) + 1))
    (root / "namespaces" / ("02" * 32)).symlink_to(root / "namespaces" / FINGERPRINT)
    (root / "namespaces" / ("03" * 32)).mkdir()
    (root / "namespaces" / "notes.txt").write_text("x")

    with capture_logs() as logs:
        found = shelf.descriptions()

    assert found == {FINGERPRINT: b"good"}
    assert [log["namespace"][:2] for log in logs] == ["01", "02", "03"]
