"""Fixtures that readers and data sets share."""

from tiny_datasets import _nowhere, data_dir, tiny, tiny_npz, urlopen  # noqa: F401
