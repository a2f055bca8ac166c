"""What an argument may be, and the one sentence that refuses another value.

In: the name of an argument and whatever was typed.  Out: the value in the one form that the library
works with.  Invariant: a refused value reads "`name` must be ..., got ..." at every entrance, and
the remedy says what to pass.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from workbench.errors import ConfigurationError, WorkbenchError

__all__ = [
    "choice_from",
    "function_from",
    "instance_from",
    "mapping_from",
    "number_from",
    "path_from",
    "refusal",
    "sequence_from",
    "share_from",
    "shown",
    "text_from",
    "truth_from",
    "whole_from",
]

T = TypeVar("T")

_WIDEST: Final = 60


def refusal(
    name: str,
    must: str,
    value: object,
    *,
    remedy: str,
    kind: type[WorkbenchError] = ConfigurationError,
) -> WorkbenchError:
    """Return the error that refuses ``value``.

    Parameters
    ----------
    name
        What the argument is called.
    must
        What it has to be: ``"a finite number"``.
    value
        Whatever was given.
    remedy
        What to pass.
    kind
        Which error.

    Examples
    --------
    >>> print(refusal("lr", "a finite number", "fast", remedy="pass a number such as 0.01"))
    `lr` must be a finite number, got 'fast'
    """
    return kind(f"`{name}` must be {must}, got {shown(value)}", remedy=remedy)


def shown(value: object) -> str:
    """Return how a refused value is shown: itself if it is short, else what it is.

    Examples
    --------
    >>> shown(1.5), shown(int), shown([0] * 100)
    ('1.5', 'the class `int`', 'a list of 100')
    >>> shown(len)
    'the function `len`'
    """
    if value is None or isinstance(value, (bool, int, float, complex)):
        return _short(repr(value), "a number")
    if isinstance(value, (str, bytes)):
        text = repr(value)
        return text if len(text) <= _WIDEST else f"a text of {len(value)} characters"
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    given, shape, dtype = (
        cast("Any", value),
        getattr(value, "shape", None),
        getattr(value, "dtype", None),
    )
    if isinstance(shape, tuple) and dtype is not None:
        what = "tensor" if type(value).__name__ == "Tensor" else "array"
        return f"{'an' if what == 'array' else 'a'} {what} of {dtype} {_extents(given.shape)}"
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        sized = cast("Sequence[object]", value)
        kind = type(sized).__name__
        plain = all(isinstance(each, (bool, int, float, str)) or each is None for each in sized)
        text = repr(sized) if plain and not isinstance(value, dict) and len(sized) < _WIDEST else ""
        return text if text and len(text) <= _WIDEST else f"a {kind} of {len(sized)}"
    named = getattr(value, "__name__", None)
    if callable(value) and isinstance(named, str):
        return f"the function `{named}`"
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in tuple('aeio') else 'a'} `{kind}`"


def _extents(shape: tuple[Any, ...]) -> str:
    return f"({', '.join(str(each) for each in shape)}{',' * (len(shape) == 1)})"


def _short(text: str, else_: str) -> str:
    return text if len(text) <= _WIDEST else f"{else_} of {len(text)} digits"


def number_from(
    name: str,
    value: object,
    least: float = -math.inf,
    *,
    open_end: bool = False,
    below: float = math.inf,
    most: float = math.inf,
    example: str = "",
) -> float:
    """Return ``value`` as a finite float within bounds.

    Parameters
    ----------
    name
        What the option is called.
    value
        Whatever was typed.
    least
        The least value allowed; not allowed itself if ``open_end``.
    open_end
        Whether the value has to be above ``least``.
    below, most
        What it has to be below, and the greatest value allowed.
    example
        A value that is often right, for the remedy.

    Raises
    ------
    ConfigurationError
        If it is no number, not finite or outside.

    Examples
    --------
    >>> number_from("factor", 1, 0.0, open_end=True)
    1.0
    """
    must = _bounded(least, open_end, below, most)
    remedy = f"pass `{name}` as {must}" + (f", such as {example}" if example else "")
    number = _plain_number(value)
    if number is None:
        raise refusal(name, must, value, remedy=remedy)
    inside = number > least if open_end else number >= least
    if not (math.isfinite(number) and inside and number < below and number <= most):
        raise refusal(name, must, value, remedy=remedy)
    return number


def _plain_number(value: object) -> float | None:
    # A text and a truth value have a float as well, and are hardly ever meant.
    if (
        isinstance(value, (str, bytes, bytearray, bool))
        or str(getattr(value, "dtype", "")) == "bool"
    ):
        return None
    try:
        return float(cast("Any", value))
    except (TypeError, ValueError, OverflowError, WorkbenchError):
        return None


def _bounded(least: float, open_end: bool, below: float, most: float) -> str:
    low = f"{'above' if open_end else 'of at least'} {least:g}" if least > -math.inf else ""
    if below < math.inf:
        return f"a number {'above' if open_end else 'from'} {least:g} to below {below:g}"
    if most < math.inf:
        return f"a number {'above' if open_end else 'from'} {least:g} to {most:g}"
    return f"a finite number {low}".rstrip()


def share_from(name: str, value: object, *, below_one: bool = False) -> float:
    """Return ``value`` as a float from 0 to 1, 1 itself left out if ``below_one``.

    Raises
    ------
    ConfigurationError
        If it is no number, or outside.
    """
    if below_one:
        return number_from(name, value, 0.0, below=1.0)
    return number_from(name, value, 0.0, most=1.0)


def whole_from(
    name: str, value: object, least: int | None = None, *, most: int | None = None
) -> int:
    """Return ``value`` as an int within bounds, both of which are allowed.

    Raises
    ------
    ConfigurationError
        If it is no integer, or outside.

    Examples
    --------
    >>> whole_from("patience", 3, 0)
    3
    """
    must = "an integer"
    if least is not None:
        must += f" from {least} to {most}" if most is not None else f" of at least {least}"
    elif most is not None:
        must += f" of at most {most}"
    try:
        number = index(cast("Any", value))
    except (TypeError, WorkbenchError):
        raise refusal(name, must, value, remedy=f"pass `{name}` as {must}") from None
    outside = (least is not None and number < least) or (most is not None and number > most)
    if isinstance(value, bool) or outside:
        raise refusal(name, must, value, remedy=f"pass `{name}` as {must}")
    return number


def truth_from(name: str, value: object) -> bool:
    """Return ``value`` if it is a truth value: anything else has one too, and is hardly ever meant.

    Raises
    ------
    ConfigurationError
        If it is neither True nor False.
    """
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise refusal(name, "True or False", value, remedy=f"pass `{name}=True` or `{name}=False`")


def text_from(
    name: str, value: object, *, must: str = "a text", example: str = "a text in quotes"
) -> str:
    """Return ``value`` if it is a text.

    Raises
    ------
    ConfigurationError
        If it is none.
    """
    if isinstance(value, str):
        return value
    raise refusal(name, must, value, remedy=f"pass `{name}` as {example}")


def choice_from(name: str, value: object, choices: Sequence[T]) -> T:
    """Return the one of ``choices`` that ``value`` is.

    Raises
    ------
    ConfigurationError
        If it is none of them; a text that is near one of them is told which.
    """
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    named = [repr(choice) for choice in choices]
    must = f"{', '.join(named[:-1])} or {named[-1]}" if len(named) > 1 else named[0]
    texts = [choice for choice in choices if isinstance(choice, str)]
    # Only errors need it, and it takes time to import.
    import difflib

    near = difflib.get_close_matches(value, texts, n=1) if isinstance(value, str) else []
    remedy = f"did you mean `{near[0]}`?" if near else f"pass one of {', '.join(named)}"
    raise refusal(name, must, value, remedy=remedy)


def path_from(name: str, value: object) -> Path:
    """Return ``value`` as a path.

    Raises
    ------
    ConfigurationError
        If it is neither a text nor a path.
    """
    original = value
    if isinstance(value, (str, os.PathLike)):
        given = os.fspath(cast("str | os.PathLike[str]", value))
        if isinstance(cast("object", given), str):
            return Path(given)
    raise refusal(name, "a path", original, remedy=f"pass `{name}` as a text or a `pathlib.Path`")


def function_from(
    name: str, value: object, form: str, *, kind: type[WorkbenchError] = ConfigurationError
) -> Callable[..., Any]:
    """Return ``value`` if it can be called as ``form``, such as ``"rate(epoch)"``.

    A class can be called too, but makes an object: it was to be made first.

    Raises
    ------
    ConfigurationError
        If it is not callable, or a class.
    """
    if isinstance(value, type):
        remedy = f"make one first: `{value.__name__}(...)`"
        raise refusal(name, f"a function `{form}`", value, remedy=remedy, kind=kind)
    if not callable(value):
        raise refusal(name, f"a function `{form}`", value, remedy=f"pass `{form}`", kind=kind)
    return value


def instance_from(
    name: str,
    value: object,
    wanted: type[T],
    must: str,
    *,
    remedy: str,
    kind: type[WorkbenchError] = ConfigurationError,
) -> T:
    """Return ``value`` if it is an instance of ``wanted``.

    Raises
    ------
    WorkbenchError
        If it is none; of the ``kind`` that is asked for.
    """
    if isinstance(value, wanted):
        return value
    raise refusal(name, must, value, remedy=remedy, kind=kind)


def sequence_from(
    name: str,
    value: object,
    wanted: type[T],
    must: str,
    *,
    remedy: str,
    kind: type[WorkbenchError] = ConfigurationError,
) -> tuple[T, ...]:
    """Return what ``value`` holds, if it is a sequence of instances of ``wanted``.

    Parameters
    ----------
    name, value, wanted, kind
        As for `instance_from`.
    must
        What the whole has to be, such as ``"a list of tensors"``.
    remedy
        What to pass.

    Raises
    ------
    WorkbenchError
        If it is no sequence, or holds something else; that one is named by its place.
    """
    original = value
    # A text is a sequence of texts, a mapping one of its keys: neither is ever meant.
    if isinstance(value, (str, bytes, Mapping, type)) or not isinstance(value, Iterable):
        raise refusal(name, must, original, remedy=remedy, kind=kind)
    found: list[T] = []
    for place, each in enumerate(cast("Iterable[object]", value)):
        if not isinstance(each, wanted):
            raise refusal(f"{name}[{place}]", must, each, remedy=remedy, kind=kind)
        found.append(each)
    return tuple(found)


def mapping_from(
    name: str,
    value: object,
    must: str,
    *,
    remedy: str,
    kind: type[WorkbenchError] = ConfigurationError,
) -> Mapping[Any, Any]:
    """Return ``value`` if it is a mapping.

    Raises
    ------
    WorkbenchError
        If it is none; of the ``kind`` that is asked for.
    """
    found = cast("Mapping[Any, Any]", value)
    if isinstance(value, Mapping):
        return found
    raise refusal(name, must, value, remedy=remedy, kind=kind)
