import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)?(?:#([^)\s]+))?\)")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(page):
    for file, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{file} does not exist"
        if anchor:
            assert anchor in _anchors(target), f"{target.name} has no heading for #{anchor}"


@each_page
def test_every_make_target_that_a_page_names_exists(page):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make (\w+)", page.read_text(encoding="utf-8")))
    assert named <= targets


@each_page
def test_every_test_that_a_page_names_exists(page):
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        path = ROOT / file
        assert path.is_file(), f"{file} does not exist"
        assert re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE), (
            f"{file} has no {name}"
        )


def test_every_page_is_reachable_from_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / file).resolve()
        for file, _ in LINK.findall(index.read_text(encoding="utf-8"))
        if file
    }
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - linked - {index} == set()


def test_the_example_in_the_readme_runs_as_it_stands_and_the_model_learns():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["run"].state.val.value("accuracy") >= 0.97


def _anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in headings}
