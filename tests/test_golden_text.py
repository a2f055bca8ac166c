from pathlib import Path

import pytest

from tests import golden_text
from tests.golden_text import check_golden


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(golden_text, "GOLDEN", tmp_path)
    return tmp_path


def test_an_updated_text_is_written_and_then_agrees(folder: Path):
    check_golden("stage/case", "a\nb", update=True)
    assert (folder / "stage" / "case.txt").read_text() == "a\nb\n"
    check_golden("stage/case", "a\nb", update=False)


def test_a_changed_text_fails_and_shows_the_lines(folder: Path):
    check_golden("case", "a\nb", update=True)
    with pytest.raises(AssertionError, match=r"(?s)--update-golden.*-b.*\+c"):
        check_golden("case", "a\nc", update=False)


def test_a_missing_file_fails_and_says_how_to_make_it(folder: Path):
    with pytest.raises(AssertionError, match=r"none\.txt is missing: make it with"):
        check_golden("none", "a", update=False)
