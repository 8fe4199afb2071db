"""Descriptions of a graph: :mod:`nodewise.report.describe`."""
