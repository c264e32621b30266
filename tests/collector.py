"""Collects traces by OTLP over HTTP: a line of JSON for each post, with its spans.

    collector.py PORT LINES plain|published

`published` has them read by the messages that OpenTelemetry publishes, which take no field that they do not know.
"""

import base64
import http.server
import json
import sys

port, lines, reader = sys.argv[1:]


def spans(exported):
    for resource in exported["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def read_plain(exported):
    return list(spans(exported))


def read_published(exported):
    from google.protobuf.json_format import MessageToDict, Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    # OTLP writes identifiers in hexadecimal, where other messages in JSON have base64.
    for span in spans(exported):
        for key in NUMBERS & span.keys():
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    read = list(spans(MessageToDict(Parse(json.dumps(exported), ExportTraceServiceRequest()))))
    for span in read:
        for key in NUMBERS & span.keys():
            span[key] = base64.b64decode(span[key]).hex()
    return read


NUMBERS = {"traceId", "spanId", "parentSpanId"}
read = {"plain": read_plain, "published": read_published}[reader]


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            line = {"path": self.path, "type": self.headers["Content-Type"], "spans": read(json.loads(body))}
        except Exception as error:
            line = {"unreadable": repr(error), "body": body.decode(errors="replace")}
        with open(lines, "a") as file:
            print(json.dumps(line), file=file, flush=True)
        self.send_response(400 if "unreadable" in line else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(port)), Collector).serve_forever()
