"""Graphs in memory: the Graph, edges to adjacency, features, splits, synthetic graphs, checks of user input."""

from nodewise.graph.graph import Graph

__all__ = ["Graph"]
