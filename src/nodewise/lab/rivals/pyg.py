"""Layers of PyTorch Geometric, loaded when a method first needs one: the library is an optional dependency."""

from __future__ import annotations

from typing import Any

import torch

from nodewise._util.errors import InputError
from nodewise.lab.rivals.matrix import SparseMatrix


def layer_class(name: str) -> Any:
    """A class of ``torch_geometric.nn``, by its name."""
    try:
        from torch_geometric import nn as layers
    except ImportError as error:
        raise InputError(f"{name} is a layer of torch_geometric; pip install 'nodewise[baselines]' for it") from error
    return getattr(layers, name)


def graph_convolution(inputs: int, outputs: int) -> Any:
    """A ``GCNConv`` that multiplies with a :class:`SparseMatrix`, normalised already, in the place of an edge index.

    torch's own CSR product sorts the matrix anew in every backward pass, which takes six times as long.
    """
    layer = layer_class("GCNConv")(inputs, outputs, normalize=False)
    layer.propagate = _multiply
    return layer


def _multiply(matrix: SparseMatrix, x: torch.Tensor, **_: None) -> torch.Tensor:
    return matrix @ x
