"""After the warm-up no kernel is compiled or loaded any more, so that no measured second goes into that."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher

from nodewise.graph import synthetic
from nodewise.graph.features import Quantized
from nodewise.graph.splits import random_splits
from nodewise.lab.compare.warmup import warm_up
from nodewise.lab.rivals import METHODS, method
from nodewise.learn.evaluate import evaluate

KINDS = {
    "dense": lambda x: {},
    "half": lambda x: {"features": x.astype(np.float16)},
    "bytes": lambda x: {"features": Quantized.of(x)},
    "sparse": lambda x: {"features": sp.csr_matrix(x * (np.abs(x) > 1.7))},  # a tenth filled
    "filled": lambda x: {"features": sp.csr_matrix(np.maximum(x, 0))},  # half: networks take these as dense
}


def kernels():
    """Every compiled function of the library, by name."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("nodewise")]
    return {
        f"{d.py_func.__module__}.{d.py_func.__name__}": d
        for module in modules
        for d in vars(module).values()
        if isinstance(d, Dispatcher)
    }


def signatures():
    return {name: set(map(str, kernel.signatures)) for name, kernel in kernels().items()}


CASES = [
    *((name, "sparse", False) for name in METHODS),
    *((name, kind, False) for name in ("SGC", "NIGCN") for kind in ("dense", "half", "bytes")),
    *((name, "filled", False) for name in ("GCN", "APPNP")),
    *((name, "dense", True) for name in ("SGC", "NIGCN")),
]


@pytest.mark.parametrize(("name", "kind", "inductive"), CASES)
def test_no_kernel_is_left_to_compile(name, kind, inductive):
    graph = synthetic.dcsbm(2000, avg_degree=12, classes=4, features=20, signal=2.0, seed=3)
    graph = graph.replace(**KINDS[kind](graph.features))
    splits = random_splits(graph.labels, 1, per_class=5, val=50, test=100)
    model = method(name)(epochs=3, threads=1)
    for kernel in kernels().values():
        kernel._reset_overloads()  # as in a new process
    warm_up(model, graph, splits[0], inductive)
    before = signatures()
    evaluate(model, graph, splits, inductive=inductive)
    assert signatures() == before
