"""Facts are gathered once for calls about the same statements, and keep no node alive."""

import gc

import pytest

import workbench as wb
from workbench.assign.assignment import Assignment
from workbench.assign.from_graph import computation
from workbench.loops import analysis
from workbench.loops.analysis import KEPT, analyse, digest_of
from workbench.loops.facts import gather_facts
from workbench.loops.policy import decide_placements


@pytest.fixture
def counted(monkeypatch):
    """Forget all analyses, and return the list that each new one is noted in."""
    made = []

    def gather(computation, rows):
        made.append(computation)
        return gather_facts(computation, rows)

    monkeypatch.setattr(analysis, "gather_facts", gather)
    monkeypatch.setattr(analysis, "_analyses", type(analysis._analyses)())
    return made


def graph(n=4):
    x = wb.input("x", (wb.batch, n))
    w = wb.parameter([[0.5] * n] * n, "w")
    return [wb.softmax(x @ w), wb.take(w, wb.input("i", (3,), "int32")), wb.iota((2, 2), 0)]


def test_siblings_share_one_analysis_though_their_axes_are_others(counted):
    outputs = graph()
    first, second = computation(outputs), computation(outputs)
    assert not {axis for s in first.statements if isinstance(s, Assignment) for axis in s.axes} & {
        axis for s in second.statements if isinstance(s, Assignment) for axis in s.axes
    }
    assert digest_of(first) == digest_of(second)
    found = [analyse(each, 32) for each in (first, second, first)]
    assert len(counted) == 1
    assert found[0] == found[1] == found[2] == gather_facts(second, 32)
    decide_placements(computation(outputs), 32)
    assert len(counted) == 1


def test_other_statements_nodes_and_batch_sizes_are_other_analyses(counted):
    outputs = graph()
    analyse(computation(outputs), 32)
    analyse(computation(outputs), 64)
    analyse(computation(outputs[:2]), 32)
    analyse(computation(graph()), 32)
    assert len(counted) == 4
    x = wb.input("x", (3, 3))
    assert len({digest_of(computation([t])) for t in (x.sum(0), x.sum(1), x.T, x.max(0))}) == 4


def test_eight_are_kept_and_the_one_asked_for_longest_ago_goes(counted):
    graphs = [computation(graph(n)) for n in range(1, KEPT + 1)]
    for each in graphs:
        analyse(each, 32)
    analyse(graphs[0], 32)
    analyse(computation(graph(KEPT + 1)), 32)
    assert len(counted) == KEPT + 1
    analyse(graphs[0], 32)
    assert len(counted) == KEPT + 1
    analyse(graphs[1], 32)
    assert len(counted) == KEPT + 2


def test_an_analysis_keeps_no_node_alive():
    gc.collect()
    before = {each.uid for each in _nodes()}
    analyse(computation(graph()), 32)
    gc.collect()
    assert {each.uid for each in _nodes()} <= before


def _nodes():
    return [each for each in gc.get_objects() if isinstance(each, wb.Tensor)]
