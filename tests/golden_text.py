"""Golden texts: what a stage prints, kept in a file so that a review sees when it changes.

In: a name and the text of today. Out: nothing, or a failure that shows the difference. With
``pytest --update-golden`` the file is written instead, to be looked at and committed.
"""

import difflib
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def check_golden(name: str, text: str, *, update: bool) -> None:
    """Compare ``text`` with the file ``tests/golden/<name>.txt``.

    Parameters
    ----------
    name
        Path below ``tests/golden``, without its ending, such as ``assign/softmax``.
    text
        What was printed; a line break is added at its end.
    update
        Whether to write the file instead.
    """
    path = GOLDEN / f"{name}.txt"
    text += "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing: make it with `pytest --update-golden`"
    golden = path.read_text(encoding="utf-8")
    if text != golden:
        lines = difflib.unified_diff(
            golden.splitlines(), text.splitlines(), str(path), "printed now", lineterm=""
        )
        raise AssertionError(
            "the text has changed; if it should, run `pytest --update-golden`\n" + "\n".join(lines)
        )
