"""Diffusion: from a graph and target nodes to the weights of their neighbours, and to rows."""
