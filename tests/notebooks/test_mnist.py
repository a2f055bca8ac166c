from pathlib import Path

import jupytext
import pytest

import workbench as wb

ROOT = Path(__file__).resolve().parents[2]
# The files of MNIST are not part of the project; this is where a checkout beside them finds them.
MNIST = ROOT.parent / "shared" / "data" / "mnist"
TUTORIAL = ROOT / "notebooks" / "01_first_training.py"


@pytest.fixture(scope="module")
def tutorial():
    """What the cells of the first tutorial define that say what to train."""
    names = {"wb": wb}
    for cell in jupytext.read(TUTORIAL).cells:
        if cell.cell_type == "code" and ("def model(" in cell.source or "def step(" in cell.source):
            exec(compile(cell.source, TUTORIAL.name, "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.is_dir(), reason=f"the MNIST files are not in {MNIST}")
def test_the_model_and_step_of_the_first_tutorial_learn_mnist_in_five_epochs(tutorial):
    train, test = wb.data.mnist(MNIST, "train"), wb.data.mnist(MNIST, "test")
    params = {
        "w1": wb.he_normal(784, 128, seed=1, purpose="w1"),
        "b1": wb.zeros(128),
        "w2": wb.he_normal(128, 10, seed=1, purpose="w2"),
        "b2": wb.zeros(10),
    }
    config = wb.Config(epochs=5, batch_size=64, lr=0.0015, seed=1, verbose=False)
    run = wb.Run(params, wb.adam(params), config)
    history = wb.fit(run, [], train, test, tutorial["step"], tutorial["metrics"])
    assert history.column("val_accuracy")[-1] >= 0.975
