"""A cache for what other servers send: `fetch(url)` asks the server once, and the database for an hour.

    python web_cache.py URL...     fetches the pages, from the cache where it has them
    python web_cache.py            serves some pages to itself and shows that it asks once
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import unikv


def ask_server(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
    return body


class WebCache:
    """Pages by their address. Processes that follow each other share it; threads may, too."""

    def __init__(
        self,
        path: str,
        keep: timedelta = timedelta(hours=1),
        ask: Callable[[str], bytes] = ask_server,
    ) -> None:
        self.db = unikv.open(path, memory_budget="64MB", compression="lz4")
        # What a keyspace holds expires by itself; nobody has to look for what is old.
        self.pages = self.db.keyspace("pages", default_ttl=keep)
        self.counts = self.db.keyspace("counts")
        self.ask = ask

    def fetch(self, url: str) -> bytes:
        key = url.encode()
        page = self.pages.get(key)
        if page is None:
            page = self.ask(url)
            self.pages[key] = page
            self.counts.increment(b"asked")
        else:
            self.counts.increment(b"saved")
        return page

    def forget(self, site: str) -> None:
        """All pages of a site, in one write."""
        self.pages.delete_prefix(site.encode())

    def report(self) -> str:
        asked, saved = (self.counts.increment(name, 0) for name in (b"asked", b"saved"))
        return f"{self.pages.count()} pages; servers were asked {asked} times, and {saved} times not"

    def close(self) -> None:
        self.db.close()


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"This is {self.path}, as of {time.time():.3f}.".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


def show(path: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_address[1]}/"
    cache = WebCache(path, keep=timedelta(seconds=2))
    first = cache.fetch(site + "a")
    assert cache.fetch(site + "a") == first, "the second time it comes from the database"
    cache.fetch(site + "b")
    print(cache.report())
    time.sleep(2.1)
    assert cache.fetch(site + "a") != first, "it has expired"
    cache.forget(site)
    print(cache.report())
    cache.close()
    server.shutdown()


if __name__ == "__main__":
    if urls := sys.argv[1:]:
        cache = WebCache("web-cache.db")
        for url in urls:
            print(f"{url}: {len(cache.fetch(url))} bytes")
        print(cache.report())
        cache.close()
    else:
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            show(f"{directory}/db")
