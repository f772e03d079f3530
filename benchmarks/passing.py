"""Measure the memory of a process while a large blob passes through a shared cache.

    python benchmarks/passing.py 2000000000

sends and fetches a blob of that many bytes over HTTP. It needs nginx.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nginx import nginx

ROOT = Path(__file__).resolve().parent.parent

# Transfers one blob; prints the peak of the process's memory in kB.
PASSING = """
import os, resource, sys
from pathlib import Path
from ingot.engine.digests import hash_file
from ingot.engine.cache.cache_address import connect
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.cache.backend import Timeouts
from ingot.engine.store import Store

root, address, blob, how = sys.argv[1:]
store = Store(Path(root), print)
remote = connect(address, os.environ, Timeouts())
cache = SharedCache(remote, store, print, True, Timeouts())
digest = hash_file(blob)
if how == "send":
    cache.send({digest: Path(blob)})
else:
    assert cache.ensure_local(digest)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def main() -> int:
    """Print a line for each direction."""
    with tempfile.TemporaryDirectory() as name:
        pass_blob(Path(name), int(sys.argv[1]))
    return 0


def pass_blob(root: Path, size_bytes: int) -> None:
    """Print the peak memory while a blob of noise is sent, and while it is fetched."""
    blob = root / "blob"
    with open(blob, "wb") as file:
        for start in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - start)))
    with nginx(root / "nginx") as url:
        for how in ("send", "fetch"):
            words = [str(root / how), url, str(blob), how]
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", PASSING, *words],
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            seconds = time.perf_counter() - start
            peak = int(done.stdout) / 1e3
            rate = size_bytes / 1e6 / seconds
            print(f"{how}: {size_bytes} bytes, peak {peak:.0f} MB, {rate:.0f} MB/s")


if __name__ == "__main__":
    sys.exit(main())
