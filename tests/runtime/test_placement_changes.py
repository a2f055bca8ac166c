import workbench as wb
from tests.present import present
from tests.runtime.test_why_card import step
from workbench.runtime.placement_changes import placement_changes
from workbench.runtime.why_card import WhyCard


def test_a_context_beside_itself_has_no_changes():
    ctx, _routine, _nodes = step()
    found = placement_changes(ctx, ctx)
    assert found.changed == ()
    assert str(found) == f"{len(ctx.placements)} nodes, 0 of them changed"


def test_a_decision_changes_the_node_and_says_so_on_both_sides():
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    found = placement_changes(ctx, WhyCard(nodes["hidden"], ctx).apply("materialize").context)
    (line,) = [line for line in found.changed if line.row.node is nodes["hidden"]]
    assert [present(row).placement.mode.value for row in (line.before, line.after)] == [
        "local",
        "on device",
    ]
    (text,) = [each for each in str(found).splitlines() if each.startswith("relu_hidden")]
    assert text.split()[1:4] == ["local", "on", "device"]
    assert "no: Local" in text
    assert "stored" in text
    assert "<b>relu_hidden</b>" in found._repr_html_()


def test_nodes_of_one_context_only_are_changes_as_well():
    x = wb.parameter([1.0], "<x>")
    first, _ = wb.Context.interpreter().compile([x * 2.0])
    second, _ = wb.Context.interpreter().compile([x * 3.0])
    found = placement_changes(first, second)
    sides = {(line.before is None, line.after is None) for line in found.changed}
    assert sides >= {(True, False), (False, True)}
    assert "<x>" not in found._repr_html_()
