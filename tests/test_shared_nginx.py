"""A real HTTP cache: nginx as Debian ships it, and memory while a blob passes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cache_server import Machine
from tests.project import ROOT
from tests.small_actions import COUNT, UPPER

# It lies where not everybody has programs.
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"

# As docs/sharing.md has it, on a port of the test's own.
CONFIGURATION = """\
daemon off;
pid {root}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_max_body_size 0;
  client_body_temp_path {root}/body;
  proxy_temp_path {root}/1; fastcgi_temp_path {root}/2;
  uwsgi_temp_path {root}/3; scgi_temp_path {root}/4;
  gzip on;
  gzip_types application/octet-stream text/plain;
  gzip_http_version 1.0;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      root {root}/files;
      dav_methods PUT;
      create_full_put_path on;
    }}
  }}
}}
"""

# Sends or fetches one blob; prints by how much that raised the peak of the memory.
PASSING = """
import resource, sys
from pathlib import Path
from tests.cache_server import Machine
from ingot.edges.digests import hash_file
from ingot.values import Digest

machine = Machine(Path(sys.argv[1]), sys.argv[2])
machine.shared.bring(Digest("0" * 64, 1))
digest = hash_file(sys.argv[3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[4] == "send":
    machine.shared.send({digest: Path(sys.argv[3])})
else:
    assert machine.shared.bring(digest)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[str]:
    """The URL of an nginx of the test's own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = tmp_path / "nginx"
    (root / "files").mkdir(parents=True)
    # Started by root, its workers are another user.
    for path in (root, *root.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    (root / "files").chmod(0o777)
    file = root / "nginx.conf"
    file.write_text(CONFIGURATION.format(root=root, port=port))
    with subprocess.Popen(
        [NGINX, "-p", str(root), "-c", str(file)], stderr=subprocess.PIPE
    ) as process:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.nginx
def test_two_machines_share_an_nginx(nginx: str, tmp_path: Path) -> None:
    first = Machine(tmp_path / "a", nginx)
    second = Machine(tmp_path / "b", nginx)
    assert first.build(UPPER, COUNT) == ["ran", "ran"]
    assert second.build(UPPER, COUNT) == ["fetched", "fetched"]
    assert first.said == second.said == []


@pytest.mark.nginx
def test_nginx_takes_garbage_and_the_client_does_not(
    nginx: str, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", nginx).build(UPPER)
    for path in (tmp_path / "nginx/files/cas").iterdir():
        path.write_bytes(b"garbage")
    second = Machine(tmp_path / "b", nginx)
    assert second.build(UPPER) == ["ran"]
    assert "is damaged there; dropped, it is made again" in second.said[0]


@pytest.mark.nginx
@pytest.mark.parametrize("content", ["zeros", "noise"])
def test_memory_does_not_grow_with_the_blob(
    nginx: str, tmp_path: Path, content: str
) -> None:
    # Zeros come packed a thousandfold: unpacked at once, they would fill the memory.
    path = tmp_path / "big.bin"
    with open(path, "wb") as file:
        for _ in range(96):
            file.write(bytes(1 << 20) if content == "zeros" else os.urandom(1 << 20))
    assert moved_kb(tmp_path / "a", nginx, path, "send") < 24_000
    assert moved_kb(tmp_path / "b", nginx, path, "fetch") < 24_000


def moved_kb(root: Path, address: str, blob: Path, how: str) -> int:
    """By how many kB the peak of a process's memory rose while the blob moved."""
    words = [sys.executable, "-c", PASSING, str(root), address, str(blob), how]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
