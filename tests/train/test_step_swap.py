"""A step that is changed while its run goes on."""

import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, leaves, logits, loss, measure, new_run, rows, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until

DATA, VAL = rows(60), rows(9, seed=1)  # 8 batches an epoch


def steeper(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: 3.0 * loss(p, x, y))


def no_result(params, opt, x, y, lr) -> Any:
    return 7


def same_as_step(params, opt, x, y, lr):
    # Written otherwise, and the same graph.
    made = wb.default_step(params, opt, x, y, lr, loss)
    return made


def after(batches, action, *, hook="BATCH_END"):
    """Return a callback that does ``action(run)`` once, after so many batches."""
    seen = []

    def count(event):
        seen.append(event)
        if len(seen) == batches:
            action(event.run)

    return at(hook, count)


def swapped(batches, new, first=step, *, epochs=3, **config):
    """Return a run that begins with ``first`` and goes on with ``new`` after some batches."""
    run = new_run(epochs, **config)
    wb.fit(run, [after(batches, lambda run: run.step(new))], DATA, VAL, first, measure)
    return run


@pytest.fixture
def endless():
    """A run that trains in the background until the test is over."""
    run = new_run(LONG)
    run.start([], DATA, VAL, step, measure)
    yield run
    run.stop()
    run.wait(PATIENCE_S)


@pytest.mark.parametrize("batches", [1, 5, 8, 11])
def test_a_swap_is_bit_for_bit_what_stopping_and_going_on_with_the_new_step_is(batches):
    run, parts = swapped(batches, steeper), new_run()
    wb.fit(parts, [after(batches, lambda run: run.stop())], DATA, VAL, step, measure)
    wb.fit(parts, [], DATA, VAL, steeper, measure)
    assert same_bits(run, parts)
    assert not same_bits(run, swapped(1000, steeper))


def test_a_swap_in_the_background_is_what_one_in_the_foreground_is():
    run, plain = new_run(LONG), new_run(LONG)
    run.start([], DATA, VAL, step, measure)
    until(lambda: run.state.global_step > 20)
    run.step(steeper)
    run.step_history[-1].wait(PATIENCE_S)
    at_step = run.step_history[-1].global_step
    assert at_step is not None
    until(lambda: run.state.global_step > at_step + 20)
    run.stop()
    run.wait(PATIENCE_S)
    end = run.state.global_step
    stops = [after(at_step, lambda run: run.step(steeper)), after(end, lambda run: run.stop())]
    wb.fit(plain, stops, DATA, VAL, step, measure)
    pairs = zip(leaves(plain), leaves(run), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_a_swap_to_the_same_text_changes_no_bit_and_makes_no_version():
    run, plain = swapped(5, step), new_run()
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(plain, run)
    assert len(run.step_history) == 1


def made_again():
    def anew(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, loss)

    return anew


def test_a_cell_of_a_step_and_a_fit_that_is_run_again_makes_no_version():
    run, functions = new_run(1), [made_again(), made_again(), made_again()]
    for function in functions:
        wb.fit(run, [], DATA, VAL, function, measure)
        run.epochs += 1
    assert [version.state for version in run.step_history] == ["in force"]
    assert run.step.current is functions[2]
    run.step(functions[0])
    assert len(run.step_history) == 1
    assert run.step.current is functions[0]


def test_a_step_that_fails_in_fit_leaves_the_one_before_in_force():
    run = new_run(1)
    wb.fit(run, [], DATA, VAL, step, measure)
    with pytest.raises(wb.TracingError):
        wb.fit(run, [], DATA, VAL, no_result, measure)
    assert [version.state for version in run.step_history] == ["in force", "failed"]
    assert run.step.current is step


def test_another_text_of_the_same_computation_changes_no_bit_and_compiles_nothing():
    run, plain = swapped(5, same_as_step), new_run()
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(plain, run)
    assert [version.name for version in run.step_history] == ["step", "same_as_step"]
    assert len(run.edits.programs.steps) == 1


def test_a_run_without_any_edit_holds_the_bits_of_fit_whichever_way_its_step_was_given():
    plain, given, declared = new_run(), new_run(), new_run()
    wb.fit(plain, [], DATA, VAL, step, measure)
    given.start([], DATA, VAL, step, measure).wait(PATIENCE_S)
    declared.step(step)
    declared.start([], DATA, VAL, eval_batch=measure).wait(PATIENCE_S)
    assert same_bits(plain, given)
    assert same_bits(plain, declared)


def test_the_decorator_gives_the_function_back():
    run = new_run()
    assert run.step(step) is step
    assert run.step.current is step
    assert run.step()(steeper) is steeper
    assert run.step.current is steeper


def test_the_old_step_goes_on_while_the_new_one_is_traced(endless):
    def slow(params, opt, x, y, lr):
        before = endless.state.global_step
        until(lambda: endless.state.global_step > before + 50)
        return steeper(params, opt, x, y, lr)

    endless.step(slow)
    endless.step_history[-1].wait(PATIENCE_S)
    assert endless.step_history[-1].state == "in force"
    assert endless.step_history[0].state == "replaced"


def test_a_history_tells_number_place_text_and_difference(endless):
    until(lambda: endless.state.global_step > 0)
    endless.step(steeper)
    first, second = endless.step_history
    second.wait(PATIENCE_S)
    assert (first.number, second.number) == (1, 2)
    assert first.global_step == 0
    assert 0 < second.asked_step <= second.global_step
    assert (first.error, second.error) == (None, None)
    assert second.source.startswith("def steeper(params, opt, x, y, lr):")
    assert "-    return wb.default_step(params, opt, x, y, lr, loss)" in second.diff
    assert "+def steeper(params, opt, x, y, lr):" in second.diff
    assert first.diff == ""
    assert repr(endless.step_history).splitlines()[1].startswith("2 step `steeper`: in force since")


def test_a_swap_is_marked_where_it_took_over():
    run = swapped(5, steeper)
    (mark,) = [mark for mark in run.store.marks if mark.kind == "step"]
    assert mark.at == 5
    assert run.step_history[1].global_step == 5
    assert run.reports[-1].text == "step 2, `steeper`, from step 5"


@pytest.mark.parametrize(
    ("wrong", "error", "line"),
    [
        (lambda params, opt, x, y, lr: params, wb.TracingError, None),
        (lambda params, opt, x, y, lr: params[7], IndexError, "lambda params, opt, x, y, lr"),
    ],
)
def test_a_step_that_fails_is_told_in_the_cell_and_the_old_one_goes_on(endless, wrong, error, line):
    with pytest.raises(error):
        endless.step(wrong)
    failed = endless.step_history[-1]
    assert failed.state == "failed"
    assert failed.error.startswith(error.__name__)
    assert line is None or line in failed.error
    assert failed.global_step is None
    assert endless.step_history[0].state == "in force"
    before = endless.state.global_step
    until(lambda: endless.state.global_step > before)


def test_an_error_names_the_line_of_the_persons_own_code():
    def crooked(params, opt, x, y, lr):
        first = params[0]["w"]
        return first @ x @ first

    run = new_run()
    with pytest.raises(wb.ShapeError):
        wb.fit(run, [], DATA, VAL, crooked, measure)
    (version,) = run.step_history
    assert version.error is not None
    assert "`return first @ x @ first`" in version.error
    assert version.line == crooked.__code__.co_firstlineno + 2


def test_a_failing_swap_changes_no_bit():
    def wrong(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: p[0]["w"].mean() @ y)

    def attempt(run):
        with pytest.raises(wb.WorkbenchError):
            run.step(wrong)

    run, plain = new_run(), new_run()
    wb.fit(run, [after(5, attempt)], DATA, VAL, step, measure)
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(plain, run)


def test_labels_that_the_new_step_has_no_class_for_are_refused_and_the_old_one_goes_on(endless):
    def of_two(params, opt, x, y, lr):
        return wb.default_step(
            params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x)[:, :2], y)
        )

    with refused(wb.DataError, "classes or rows 0 to 1"):
        endless.step(of_two)
    assert endless.is_training


def test_any_version_can_be_put_back():
    run, plain = new_run(), new_run()
    edits = [
        after(3, lambda run: run.step(steeper)),
        after(9, lambda run: run.step_history[0].restore()),
    ]
    wb.fit(run, edits, DATA, VAL, step, measure)
    edits[1] = after(9, lambda run: run.step(same_as_step))
    edits[0] = after(3, lambda run: run.step(steeper))
    wb.fit(plain, edits, DATA, VAL, step, measure)
    assert same_bits(plain, run)
    assert [version.global_step for version in run.step_history] == [0, 3, 9]
    assert [version.state for version in run.step_history] == ["replaced", "replaced", "in force"]


def test_a_version_that_failed_is_not_put_back():
    run = new_run()
    with pytest.raises(wb.TracingError):
        wb.fit(run, [], DATA, VAL, no_result, measure)
    with refused(wb.ConfigurationError, "version 1 of the step failed"):
        run.step_history[0].restore()


def test_what_a_step_refers_to_may_change_under_the_same_text():
    factor = 1.0

    def scaled(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: factor * loss(p, x, y))

    def thrice(run):
        nonlocal factor
        factor = 3.0
        run.step(scaled)

    run = new_run()
    wb.fit(run, [after(5, thrice)], DATA, VAL, scaled, measure)
    assert same_bits(run, swapped(5, steeper))
    assert [version.diff for version in run.step_history] == ["", ""]


def test_fitting_again_uses_what_the_step_refers_to_now():
    factor = 1.0

    def scaled(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: factor * loss(p, x, y))

    run, plain = new_run(2), new_run(2)
    wb.fit(run, [after(8, lambda run: run.stop())], DATA, None, scaled)
    factor = 3.0
    wb.fit(run, [], DATA, None, scaled)
    wb.fit(plain, [after(8, lambda run: run.step(steeper))], DATA, None, step)
    assert same_bits(plain, run)


def test_a_metric_of_the_new_step_has_values_from_the_swap_on():
    def told(params, opt, x, y, lr):
        made = steeper(params, opt, x, y, lr)
        return made.with_metrics(twice=2.0 * made.loss)

    run = swapped(11, told, epochs=3)
    assert np.isnan(run.history.column("train_twice")[:2]).all()
    assert np.isfinite(run.history.column("train_twice")[2])
    assert np.allclose(run.series["twice"], 2.0 * run.losses)


def test_a_metric_that_the_new_step_lacks_ends_with_the_old_one():
    def told(params, opt, x, y, lr):
        made = step(params, opt, x, y, lr)
        return made.with_metrics(twice=2.0 * made.loss)

    run = swapped(11, steeper, told)
    assert np.isfinite(run.history.column("train_twice")[0])
    assert np.isnan(run.history.column("train_twice")[1:]).all()
    assert run.series == {}


def test_the_evaluation_follows_what_it_refers_to():
    weight = 1.0

    def rated(params, x, y):
        return {"loss": weight * loss(params, x, y)}

    def double(run):
        nonlocal weight
        weight = 2.0
        run.step(same_as_step)

    run, plain = new_run(), new_run()
    wb.fit(run, [after(11, double)], DATA, VAL, step, rated)
    weight = 1.0
    wb.fit(plain, [], DATA, VAL, step, rated)
    ratio = run.history.column("val_loss") / plain.history.column("val_loss")
    assert np.allclose(ratio, [1.0, 2.0, 2.0])


def test_a_run_over_a_stream_swaps_in_the_midst_of_an_epoch():
    def batches(epoch, start):
        rng = np.random.default_rng(epoch)
        drawn = [rng.permutation(60)[:8] for _ in range(8)]
        for chosen in drawn[start:]:
            yield DATA.x[chosen], DATA.y[chosen]

    def streamed(callbacks, *then):
        run = new_run()
        source = wb.data.Stream(batches, batch_size=8, steps_per_epoch=8)
        wb.fit(run, callbacks, source, None, step)
        for new in then:
            wb.fit(run, [], source, None, new)
        return run

    run = streamed([after(11, lambda run: run.step(steeper))])
    parts = streamed([after(11, lambda run: run.stop())], steeper)
    assert same_bits(run, parts)


def test_a_swap_under_gradient_accumulation_keeps_the_open_window():
    run = swapped(3, steeper, accum_steps=2)
    parts = new_run(accum_steps=2)
    wb.fit(parts, [after(3, lambda run: run.stop())], DATA, VAL, step, measure)
    wb.fit(parts, [], DATA, VAL, steeper, measure)
    assert run.history.column("train_loss").tolist() == parts.history.column("train_loss").tolist()
    assert np.array_equal(run.params[0]["w"], parts.params[0]["w"])


def test_a_paused_run_takes_a_new_step_at_once(endless):
    endless.pause()
    until(lambda: endless.status == "paused")
    endless.step(steeper)
    endless.step_history[-1].wait(PATIENCE_S)
    assert endless.status == "paused"
    before = endless.state.global_step
    endless.resume()
    until(lambda: endless.state.global_step > before)


def test_a_run_that_has_ended_takes_a_new_step_for_the_next_fit():
    run, parts = new_run(), new_run(6)
    wb.fit(run, [], DATA, VAL, step, measure)
    run.step(steeper)
    assert run.step_history[-1].state == "in force"
    run.epochs = 6
    wb.fit(run, [], DATA, VAL, eval_batch=measure)
    wb.fit(parts, [after(24, lambda run: run.step(steeper))], DATA, VAL, step, measure)
    assert same_bits(run, parts)


def test_two_edits_of_one_hook_take_over_in_their_order():
    def both(run):
        run.step(same_as_step)
        run.step(steeper)

    run = new_run()
    wb.fit(run, [after(5, both)], DATA, VAL, step, measure)
    assert same_bits(run, swapped(5, steeper))
    assert [v.global_step for v in run.step_history] == [0, 5, 5]


def test_edits_from_several_threads_all_take_over(endless):
    def scaled(factor):
        def made(params, opt, x, y, lr):
            return wb.default_step(params, opt, x, y, lr, lambda p, x, y: factor * loss(p, x, y))

        return made

    threads = [
        threading.Thread(target=endless.step, args=(scaled(float(n)),)) for n in (1, 2, 1, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for version in endless.step_history[1:]:
        version.wait(PATIENCE_S)
    states = [version.state for version in endless.step_history]
    assert states[-1] == "in force"
    assert set(states[:-1]) == {"replaced"}


def test_a_run_without_any_step_says_what_to_write():
    with refused(wb.ConfigurationError, "has no step", remedy="@run.step"):
        wb.fit(new_run(), [], DATA, VAL)


def test_the_texts_of_a_history_are_escaped():
    run = new_run()
    run.step(lambda params, opt, x, y, lr: "<b>&</b>")
    shown = run.step_history._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown
    assert "&lt;lambda&gt;" in shown


def test_many_edits_keep_the_memory_of_a_run_bounded():
    run = new_run(LONG)
    run.start([], DATA, VAL, step, measure)

    def scaled(factor):
        def made(params, opt, x, y, lr):
            return step(params, opt, x, y, lr * factor)

        return made

    run.step(scaled(0.5))
    first = run.context.held_memory()
    for number in range(12):
        run.step(scaled(0.5 + number / 64))
        run.step_history[-1].wait(PATIENCE_S)
    assert run.context.held_memory() == first
    assert run.context.lifecycle_depth <= 2
    assert len(run.edits.programs.steps) <= 8
    run.stop()
    run.wait(PATIENCE_S)


def test_waiting_for_a_version_in_a_callback_is_refused():
    def wait(run):
        run.step(steeper)
        with refused(wb.ExecutionError, "a callback waits for `step`"):
            run.step_history[-1].wait()

    run = new_run()
    wb.fit(run, [after(5, wait)], DATA, VAL, step, measure)
    assert run.step_history[-1].global_step == 5


def test_parameters_can_be_assigned_while_a_step_is_compiled(endless):
    done = []

    def slow(params, opt, x, y, lr):
        writer = threading.Thread(target=lambda: setattr(endless, "params", endless.params))
        writer.start()
        writer.join(PATIENCE_S)
        done.append(not writer.is_alive())
        return steeper(params, opt, x, y, lr)

    endless.step(slow)
    assert done == [True]


def test_an_interrupt_while_a_step_is_traced_leaves_the_old_one_at_work(endless):
    def interrupted(params, opt, x, y, lr):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        endless.step(interrupted)
    assert endless.is_training
    endless.step(steeper)
    endless.step_history[-1].wait(PATIENCE_S)
    assert [version.state for version in endless.step_history] == ["replaced", "in force"]


def test_a_version_tells_which_parameters_it_changes():
    def last_layer_only(params, opt, x, y, lr):
        made = step(params, opt, x, y, lr)
        return wb.StepResult(made.loss, [params[0], made.params[1]], made.opt)

    run = new_run()
    wb.fit(run, [after(5, lambda run: run.step(last_layer_only))], DATA, VAL, step, measure)
    assert run.step_history[0].changes == ("0.b", "0.w", "1.b", "1.w")
    assert run.step_history[1].changes == ("1.b", "1.w")


def forgetful(params, opt, x, y, lr):
    return wb.StepResult(step(params, opt, x, y, lr).loss, params, opt)


def test_a_step_that_changes_no_parameter_is_reported():
    said = "the step changes no parameter: it gives all back as given"
    run, edited = new_run(1), new_run(1)
    wb.fit(run, [], DATA, VAL, forgetful, measure)
    assert [report.text for report in run.reports] == [said]
    wb.fit(edited, [after(5, lambda run: run.step(forgetful))], DATA, VAL, step, measure)
    assert [r.text for r in edited.reports] == [f"step 2, `forgetful`, from step 5\n{said}"]


def test_each_of_two_edits_has_a_fingerprint_of_its_own():
    def both(run):
        run.step(forgetful)
        run.step(steeper)

    run = new_run(1)
    wb.fit(run, [after(5, both)], DATA, VAL, step, measure)
    assert len({version.fingerprint for version in run.step_history}) == 3
