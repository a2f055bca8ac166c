"""Curves as a figure of matplotlib, which is an extra and knows no complete types.

In: a table with a column for each curve.  Out: a figure, and its picture.  Invariant: matplotlib's
state machine (``pyplot``) is not touched, so that nothing is shown or kept behind a person's back.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any, Final, cast

from workbench.errors import BackendUnavailable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["drawn", "picture"]

# Told apart without colours, too: Okabe and Ito's colours, and a dash for each round of them.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: Final = ("-", "--", ":", "-.")


def drawn(curves: pd.DataFrame, title: str) -> Figure:
    """Return a figure with a line for each column, over the index.

    Parameters
    ----------
    curves
        NaN where a curve has no value.
    title
        What the values are.

    Raises
    ------
    BackendUnavailable
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as fault:
        raise BackendUnavailable(
            "curves need the package `matplotlib`, which is not installed",
            remedy="install `training-workbench[lab]`; `curves` holds the numbers",
        ) from fault
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = cast("Any", figure.subplots())
    for number, name in enumerate(curves):
        curve = curves[name].dropna()
        axes.plot(
            curve.index.to_numpy(),
            curve.to_numpy(),
            color=_COLOURS[number % len(_COLOURS)],
            linestyle=_DASHES[number // len(_COLOURS) % len(_DASHES)],
            marker="o" if len(curve) == 1 else None,
        )
    axes.set_xlabel(str(curves.index.name))
    axes.set_ylabel(title, parse_math=False)
    # A name that begins with an underscore would be left out; a dollar would begin a formula.
    legend = axes.legend(axes.get_lines(), [f" {name}" for name in curves])
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.grid(visible=True, alpha=0.3)
    return figure


def picture(figure: Figure) -> str:
    """Return a figure as the address of a picture that holds it, for HTML."""
    octets = io.BytesIO()
    cast("Any", figure).savefig(octets, format="png", dpi=100)
    return f"data:image/png;base64,{base64.b64encode(octets.getvalue()).decode()}"
