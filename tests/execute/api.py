"""A small HTTP API for the execute surface: 300 items in pages, and orders, each of which is noted and may take its time.

    api.py [--port N]

Prints `listening URL`. `GET /_orders` gives the orders, oldest first. An order whose note begins with `slow` is noted at once
and answered after ten seconds.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ITEMS = [{"id": f"i{n}", "name": f"item {n}", "price": n, "about": f"{n} " + "x" * 80} for n in range(300)]
ORDERS = []
LOCK = threading.Lock()


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        at = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(at.query).items()}
        parts = at.path.strip("/").split("/")
        if parts == ["_orders"] or parts == ["orders"]:
            with LOCK:
                return self.say(200, {"orders": list(ORDERS)})
        if parts == ["items"]:
            first, size = int(query.get("after", 0)), int(query.get("size", 100))
            end = min(first + size, len(ITEMS))
            more = {"next": str(end)} if end < len(ITEMS) else {}
            return self.say(200, {"items": ITEMS[first:end], **more})
        found = [item for item in ITEMS if parts == ["items", item["id"]]]
        return self.say(200, found[0]) if found else self.say(404, {"error": "not found"})

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        with LOCK:
            order = {"id": f"o{len(ORDERS) + 1}", "key": self.headers.get("Idempotency-Key"), **given}
            ORDERS.append(order)
        if str(given.get("note")).startswith("slow"):
            time.sleep(10)
        try:
            self.say(200, order)
        except OSError:
            pass  # whoever asked is gone


port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
server = ThreadingHTTPServer(("127.0.0.1", port), Shop)
server.daemon_threads = True
print(f"listening http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
