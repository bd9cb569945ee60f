"""The tests of lathe.torch. They use a cache directory of their own, so that the first run compiles."""

import os
import tempfile

_cache = tempfile.TemporaryDirectory(prefix="lathe-torch-")
os.environ["LATHE_CACHE_DIR"] = os.environ.get("LATHE_TEST_PYTHON_CACHE", _cache.name)
