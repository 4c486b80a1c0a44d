"""The process of a Lambda function: events on stdin, a line each, and responses on stdout."""

from __future__ import annotations

import importlib
import json
import sys

if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    handler = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        print(json.dumps(handler(json.loads(line), None)), flush=True)
