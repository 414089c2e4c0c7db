# The function of deploy/lambda behind HTTP: a POST with its event as JSON, its answer as JSON.
import http.server
import json
import os

import app


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            length = int(self.headers.get("content-length", 0))
            self.answer(200, app.handler(json.loads(self.rfile.read(length) or b"{}"), None))
        except app.CudaError as error:
            self.answer(503, {"error": str(error)})
        except (ValueError, TypeError, AttributeError) as error:
            self.answer(400, {"error": f"this is no event: {error}"})

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.HTTPServer(("", int(os.environ.get("PORT", 8080))), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
