"""As much of a Kubernetes API as the rollout gate asks: pods of one namespace, listed as a table, and one deleted. Behind it
stands the cluster of scripts/cluster; a pod's name goes with its process, as a deleted pod's does."""

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Api:
    """Serves on a free port of 127.0.0.1 with this certificate; `asked` has what was asked, as verbs of a Role."""

    def __init__(self, cluster, namespace, labels, token, certificate, key):
        self.cluster, self.namespace, self.labels, self.token = cluster, namespace, labels, token
        self.asked, self.refused = set(), []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def pods(self):
        """Each pod by its name, with its number in the cluster and whether it is ready."""
        told = subprocess.run([self.cluster, "status"], check=True, capture_output=True, text=True).stdout
        lines = [line.split() for line in told.splitlines() if line.startswith("pod-")]
        return {f"{self.namespace}-{words[-2]}": (words[0], words[-1] == "ready") for words in lines if words[-2] != "-"}

    def chosen(self, selector):
        return all(self.labels.get(name) == value for name, _, value in (part.partition("=") for part in selector.split(",")))

    def answer(self, verb, url, token):
        """Status and body."""
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        base = f"/api/v1/namespaces/{self.namespace}/pods"
        if token != f"Bearer {self.token}":
            return 401, {}
        if verb == "GET" and path == base:
            self.asked.add("list")
            pods = self.pods() if self.chosen(query["labelSelector"][0]) else {}
            rows = [{"cells": [name, "1/1" if ready else "0/1", "Running", "0", "1m"]} for name, (_, ready) in pods.items()]
            return 200, {"kind": "Table", "rows": rows}
        if verb == "DELETE" and path.startswith(f"{base}/"):
            self.asked.add("delete")
            number, _ = self.pods()[path.removeprefix(f"{base}/")]
            subprocess.Popen([self.cluster, "roll", number], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return 200, {"kind": "Pod"}
        self.refused.append(f"{verb} {url}")
        return 403, {}


def handler(api):
    class Handler(BaseHTTPRequestHandler):
        def respond(self):
            status, body = api.answer(self.command, self.path, self.headers.get("Authorization"))
            text = json.dumps(body, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_DELETE = do_POST = do_PATCH = do_PUT = respond

        def log_message(self, *_):
            pass

    return Handler
