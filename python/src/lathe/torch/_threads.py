"""Lathe's tasks on PyTorch's threads, so that two pools do not compete for the cores."""

import os

import torch

from .. import _core


def _libraries():
    """GCC's OpenMP libraries that this process has loaded; PyTorch's own first."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if "libgomp" in line}
    except OSError:
        return []
    own = os.path.dirname(os.path.abspath(torch.__file__))
    return sorted(paths, key=lambda path: (not path.startswith(own), path))


def share_threads(threads=None):
    """Runs Lathe's tasks on the OpenMP threads that PyTorch computes on, on at most `threads` of them.

    threads  None: torch.get_num_threads()

    Importing lathe.torch does this. Call it again after torch.set_num_threads with more threads; fewer take effect at
    once. An open device is closed, so statistics() begin anew, and kernels are loaded again from the cache. Returns
    whether it worked. If PyTorch uses another library than GCC's (conda may bring Intel's), Lathe keeps its own
    threads: then set the environment variable LATHE_WORKERS.
    """
    threads = torch.get_num_threads() if threads is None else threads
    for path in _libraries():
        try:
            _core.use_openmp(path, threads)
            return True
        except ValueError:
            continue
    return False
