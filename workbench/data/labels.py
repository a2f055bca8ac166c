"""Class labels: checked on the host, once, when they enter.

A label indexes a row of logits in native code, where nothing stands between a wrong number and
somebody else's memory.  The check therefore belongs here, before a buffer is filled.
"""

from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from workbench.arguments import whole_from
from workbench.errors import DataError

__all__ = ["check_labels"]


def check_labels(y: ArrayLike, classes: SupportsIndex) -> None:
    """Refuse labels that do not name one of the classes ``0 .. classes - 1``.

    Parameters
    ----------
    y
        Integer labels of any shape; the first axis counts the rows.  May be empty.
    classes
        How many classes there are.

    Raises
    ------
    DataError
        If ``y`` does not hold integers, or for the first label that is out of range; the text
        names its row and its value.
    ConfigurationError
        If ``classes`` is below 1.

    Examples
    --------
    >>> check_labels([0, 2, 1], 3)
    >>> check_labels([0, 3, 1], 3)
    Traceback (most recent call last):
    workbench.errors.DataError: y[1] is 3, but 3 classes are labelled 0 to 2
    Remedy: number the classes from 0, or raise the number of classes.
    """
    count = whole_from("classes", classes, 1)
    labels = np.asarray(y)
    if labels.size == 0:
        return
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"labels have dtype {labels.dtype}, but a class is named by an integer",
            remedy="convert the labels with `.astype(np.int32)` once they are whole numbers.",
        )
    if int(labels.min()) >= 0 and int(labels.max()) < count:
        return
    place = np.argwhere((labels < 0) | (labels >= count))[0]
    where = ", ".join(str(i) for i in place)
    raise DataError(
        f"y[{where}] is {labels[tuple(place)]}, but {count} classes are labelled 0 to {count - 1}",
        remedy="number the classes from 0, or raise the number of classes.",
    )
