# A runtime of Lambda in a few lines, for tests: takes events from the Runtime API, gives them to the handler of the
# module that is named, and answers. awslambdaric does the same.
import importlib
import json
import os
import sys
import traceback
import urllib.request

api = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime"
sys.path.insert(0, sys.argv[1])
handler = importlib.import_module(sys.argv[2]).handler


def post(path, body):
    asked = urllib.request.Request(f"{api}/{path}", json.dumps(body).encode(), method="POST")
    urllib.request.urlopen(asked).read()


while True:
    with urllib.request.urlopen(f"{api}/invocation/next") as event:
        identifier = event.headers["Lambda-Runtime-Aws-Request-Id"]
        payload = json.load(event)
    try:
        body = handler(payload, None)
    except Exception as error:  # as Lambda reports it
        traceback.print_exc()
        body = {"errorType": type(error).__name__, "errorMessage": str(error)}
    post(f"invocation/{identifier}/response", body)
