"""Readers of file formats, one per module: a path in, a graph or a stream of arrays out."""
