"""Run nginx as an HTTP cache on 127.0.0.1, configured as in docs/sharing.md."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Its folder is not on everybody's PATH.
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

CONFIGURATION = """\
{user}
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


@contextmanager
def nginx(root: Path) -> Iterator[str]:
    """Yield its URL; the server ends with the block."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (root / "files").mkdir(parents=True)
    # Started by root, its workers would be another user, whom the folders of tests are
    # closed to: every run of pytest sees to that when it starts.
    user = "user root;" if os.geteuid() == 0 else ""
    file = root / "nginx.conf"
    text = CONFIGURATION.format(root=root, port=port, user=user)
    file.write_text(text, encoding="utf-8")
    words = [NGINX, "-p", str(root), "-c", str(file)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
