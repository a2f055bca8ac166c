"""Data sets: read, checked and cut, ready for native code.

Reading order: `admit` takes any array in; `labels` guards class labels; `dataset` holds features
and targets, `stream` those that come batch by batch; `batch`, `partition`, `scaling` and
`row_weights` order, cut, scale and weigh rows.  Then the sources: `optical_digits` (comes with the
package), `gaussian_blobs` (made up), `mnist_files` over `idx`, and `cifar10_files`, both of which
find their files by `lookup` and fetch them by `download` when asked to.

Invariant: whatever comes out of this package has been checked on the host, so that nothing
below it needs to.
"""

from workbench.data.batch import batch_count, batch_end, row_order
from workbench.data.cifar10_files import cifar10
from workbench.data.dataset import Dataset, empty
from workbench.data.gaussian_blobs import blobs
from workbench.data.labels import check_labels
from workbench.data.lookup import Subset
from workbench.data.mnist_files import mnist
from workbench.data.optical_digits import digits
from workbench.data.partition import split
from workbench.data.row_weights import class_weights
from workbench.data.scaling import standardize
from workbench.data.stream import Stream

__all__ = [
    "Dataset",
    "Stream",
    "Subset",
    "batch_count",
    "batch_end",
    "blobs",
    "check_labels",
    "cifar10",
    "class_weights",
    "digits",
    "empty",
    "mnist",
    "row_order",
    "split",
    "standardize",
]
