"""One object for each different scalar expression, so that sharing is found by identity."""

from __future__ import annotations

from workbench.loops.expression import Apply, Expr, Load, Number, Var, children


class Pool:
    """Interns expressions; also remembers which buffers each expression loads from."""

    def __init__(self) -> None:
        self._by_structure: dict[tuple[object, ...], Expr] = {}
        self._by_object: dict[int, tuple[Expr, Expr]] = {}
        self._loads: dict[int, frozenset[int]] = {}

    @property
    def loads_by_id(self) -> dict[int, frozenset[int]]:
        """Buffers loaded, by the id of every expression that `loads` was asked about."""
        return self._loads

    def intern(self, expr: Expr) -> Expr:
        """Return the pool's object for ``expr``, iteratively, so that depth is no limit."""
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            current, expanded = stack.pop()
            if id(current) in self._by_object:
                continue
            below = children(current)
            if not expanded and any(id(child) not in self._by_object for child in below):
                stack.append((current, True))
                stack.extend((child, False) for child in below)
                continue
            own = self._own(current)
            # The first entry keeps the original alive, so that its id is not used again.
            self._by_object[id(current)] = (current, own)
            self._by_object.setdefault(id(own), (own, own))
        return self._by_object[id(expr)][1]

    def _own(self, expr: Expr) -> Expr:
        match expr:
            case Number():
                key: tuple[object, ...] = ("n", repr(expr.value), expr.dtype)
                return self._by_structure.setdefault(key, expr)
            case Var():
                return self._by_structure.setdefault(("v", expr.name, expr.dtype), expr)
            case Load():
                offset = self._by_object[id(expr.offset)][1]
                key = ("l", expr.buffer, id(offset), expr.dtype)
                return self._by_structure.setdefault(key, Load(expr.buffer, offset, expr.dtype))
            case Apply():
                args = tuple(self._by_object[id(arg)][1] for arg in expr.args)
                key = ("a", expr.op, tuple(id(arg) for arg in args), expr.dtype)
                return self._by_structure.setdefault(key, Apply(expr.op, args, expr.dtype))

    def loads(self, expr: Expr) -> frozenset[int]:
        """Return the numbers of the buffers that ``expr`` loads from."""
        known = self._loads.get(id(expr))
        if known is not None:
            return known
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            current, expanded = stack.pop()
            if id(current) in self._loads:
                continue
            below = children(current)
            if not expanded:
                stack.append((current, True))
                stack.extend((child, False) for child in below)
                continue
            found = frozenset((current.buffer,)) if isinstance(current, Load) else frozenset[int]()
            for child in below:
                found |= self._loads[id(child)]
            self._loads[id(current)] = found
        return self._loads[id(expr)]
