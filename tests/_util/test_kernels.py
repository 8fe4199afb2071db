"""The cache of compiled kernels: neither a damaged file nor a full disk stops a command."""

from __future__ import annotations

import errno

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

from nodewise import NodewiseWarning
from nodewise._util.kernels import njit


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Makes the same kernel anew, as the next process does."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def make():
        @njit(nogil=True)
        def twice(number):
            return 2 * number

        return twice

    return make


def loads(made) -> int:
    return sum(made.stats.cache_hits.values())


def test_compiled_code_is_kept(kernel):
    assert kernel()(3) == 6
    again = kernel()
    assert (again(3), loads(again)) == (6, 1)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("change", ["empty", "cut off", "zeros", "text"])
def test_damaged_files_are_made_again(kernel, tmp_path, suffix, change):
    kernel()(3)
    (file,) = tmp_path.rglob(f"*.{suffix}")
    data = file.read_bytes()
    half = len(data) // 2
    damaged = {"empty": b"", "cut off": data[:half], "zeros": bytes(len(data)), "text": b"(" * len(data)}
    file.write_bytes(damaged[change])
    assert kernel()(3) == 6
    again = kernel()
    assert (again(3), loads(again)) == (6, 1)


def test_a_full_disk_is_one_warning(kernel, monkeypatch):
    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_dump", full)
    with pytest.warns(NodewiseWarning, match="cannot be kept there .No space left on device.*free some space"):
        assert kernel()(3) == 6
