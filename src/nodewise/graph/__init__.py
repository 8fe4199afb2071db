"""A graph in memory: the adjacency that engines walk on, and what is known of its nodes."""

from nodewise.graph.graph import Graph

__all__ = ["Graph"]
