"""Random sequences of calls on contexts: who may still be used, what they read, what is freed."""

import gc
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.runtime.context import Context


class Known:
    """A context, and what holds of it by the rules alone."""

    def __init__(self, ctx, unit, above):
        self.ctx, self.unit, self.above = ctx, unit, above

    def is_dead(self, released):
        return self.unit in released or any(unit in released for unit in self.above)


class World:
    """Contexts of one root, made by random moves, beside a model of their units and values."""

    def __init__(self, seed):
        self.numbers = random.Random(seed)
        self.x = wb.input("x", (5,))
        self.other = wb.input("other", (40,))
        self.total = wb.parameter(np.zeros(5, np.float32), "total")
        root = Context.interpreter()
        self.before = root.used_memory()
        # A unit's number; units above it, the nearest first.
        self.released = set()
        self.units = 0
        self.known = [Known(root, 0, ())]
        self.routines = {}

    def new_unit(self):
        self.units += 1
        return self.units

    def pick(self):
        return self.numbers.choice(self.known)

    def keep(self, ctx, unit, above):
        self.known.append(Known(ctx, unit, above))

    def compile(self, known):
        ctx, routine = known.ctx.compile([], updates={self.total: self.total + self.x})
        unit = self.new_unit()
        self.routines[unit] = routine
        self.keep(ctx, unit, (known.unit, *known.above))

    def decide(self, known):
        above = (known.unit, *known.above)
        self.keep(known.ctx.decide_materialized(self.total), self.new_unit(), above)

    def upload(self, known):
        ctx = known.ctx.set_values({self.x: np.ones(5), self.total: np.zeros(5)})
        unit = known.unit if ctx.same_release_unit(known.ctx) else self.new_unit()
        self.keep(ctx, unit, known.above)

    def grow(self, known):
        """An upload of what has no memory yet: in the same unit, or in a fork of it."""
        ctx = known.ctx.set_values({self.other: np.ones(40)})
        unit = known.unit if ctx.same_release_unit(known.ctx) else self.new_unit()
        self.keep(ctx, unit, known.above)

    def run(self, known):
        routine = self.routines.get(known.unit)
        if routine is None or not known.ctx.can_run(routine):
            return
        if not {self.x, self.total} <= known.ctx.initialized:
            return
        ctx = known.ctx.run(routine)
        assert ctx.same_release_unit(known.ctx)
        self.keep(ctx, known.unit, known.above)

    def release(self, known):
        known.ctx.release()
        self.released.add(known.unit)

    def drop(self, known):
        if len(self.known) > 1:
            self.known.remove(known)

    def move(self):
        known = self.pick()
        name = self.numbers.choice(
            ["compile", "compile", "upload", "upload", "grow", "run", "decide", "release", "drop"]
        )
        use = getattr(self, name)
        if name in ("release", "drop"):
            if name == "release" and self.numbers.random() < 0.5:
                return
            use(known)
        elif known.is_dead(self.released):
            with pytest.raises(wb.ExecutionError, match="was released"):
                known.ctx.sync()
        else:
            use(known)

    def check(self):
        for known in self.known:
            assert known.ctx.lifecycle_depth == len(known.above)
            if known.is_dead(self.released):
                with pytest.raises(wb.ExecutionError, match="was released"):
                    known.ctx.observability(self.x)
                assert known.ctx.held_memory() == 0
            else:
                known.ctx.sync()
                if self.x in known.ctx.initialized:
                    assert known.ctx.get_values(self.x).tolist() == [1.0] * 5
        held = self.known[0].ctx.used_memory() - self.before
        assert held >= max(known.ctx.held_memory() for known in self.known)


def play(seed, moves):
    gc.collect()
    gc.disable()
    try:
        world = World(seed)
        for _ in range(moves):
            world.move()
        world.check()
        probe = Context.interpreter()
        before = world.before
        if world.numbers.random() < 0.5:
            # Released in any order, everything is free though all is still held.
            for known in world.numbers.sample(world.known, len(world.known)):
                known.ctx.release()
            assert probe.used_memory() == before
        else:
            routines = world.routines  # as a notebook still has them
            world.known.clear()
            del world
            assert probe.used_memory() == before
            assert all(repr(routine) for routine in routines.values())
    finally:
        gc.enable()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_random_calls_are_refused_by_the_rules_and_leave_no_memory_behind(seed):
    play(seed, 30)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_many_more_random_calls_are_refused_by_the_rules_and_leave_no_memory_behind(seed):
    play(seed, 80)
