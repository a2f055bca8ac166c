import re

import pytest

from workbench_widgets.assets import STATIC, script, style

MODULES = sorted(path.stem for path in STATIC.glob("*.js"))
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_a_script_needs_no_neighbour_and_holds_each_name_once(name):
    text = script(name)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    names = TOP_LEVEL.findall(text)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", MODULES)
def test_a_script_exports_at_most_its_default(name):
    exports = re.findall(r"^export (\w+)", script(name), re.MULTILINE)
    assert exports in ([], ["default"])


@pytest.mark.parametrize("name", MODULES)
def test_a_script_fetches_nothing_from_a_network(name):
    assert not re.search(r"https?://|\bfetch\(|XMLHttpRequest|WebSocket", script(name))


@pytest.mark.parametrize("name", sorted(path.stem for path in STATIC.glob("*.css")))
def test_a_style_sheet_fetches_nothing_and_brings_the_common_part(name):
    text = style(name)
    assert "url(" not in text
    assert "@import" not in text
    assert "--wb-text" in text
