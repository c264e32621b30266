"""Takes a webhook's notifications, by Python's own HTTP and HMAC: a line of JSON for each post.

    receiver.py PORT SECRET_FILE LINES

The first post of all is refused, as if the program behind were just starting.
"""

import hashlib
import hmac
import http.server
import json
import sys

port, secret_file, lines = sys.argv[1:]
secret = open(secret_file, "rb").read().rstrip()
seen = []


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = dict(part.split("=", 1) for part in self.headers["Reweave-Signature"].split(","))
        signed = hmac.new(secret, parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        delivery = self.headers["Reweave-Delivery"]
        line = {
            "is_signed": hmac.compare_digest(signed, parts["v1"]),
            "event": self.headers["Reweave-Event"],
            "is_again": delivery in seen,
            "body": json.loads(body),
        }
        with open(lines, "a") as file:
            print(json.dumps(line), file=file, flush=True)
        self.send_response(204 if seen else 503)
        self.end_headers()
        seen.append(delivery)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()
