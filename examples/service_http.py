"""Decide, label and look, in plain HTTP: what a client in any language has to do.

Start a service first (`obil serve model/`), then: python examples/service_http.py http://127.0.0.1:8642
"""

import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from typing import Any


def ask(method: str, path: str, body: Any = None, *, retry_key: str | None = None) -> Any:
    """Send one request; return the answer, or tell why it was refused."""
    request = urllib.request.Request(f"{ADDRESS}{path}", method=method)  # noqa: S310  # an address of your own
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if retry_key is not None:
        request.add_header("Idempotency-Key", retry_key)
    if "OBIL_KEY" in os.environ:
        request.add_header("Authorization", f"Bearer {os.environ['OBIL_KEY']}")
    try:
        with urllib.request.urlopen(request, timeout=60.0) as answer:  # noqa: S310  # to an address of your own
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        problem = json.load(refused)
        show(f"refused with {refused.code} {problem['code']} at {problem['where']}: {problem['detail']}")
        return None


def show(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


ADDRESS = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8642"

card = ask("GET", "/v1/model")
if card is None:
    sys.exit(1)
show(f"model {card['version']} of the classes {card['classes']}, verdict of the gate: {card['gate']['verdict']}")

# a row by column name, or an array if the model has no column names
columns = card["columns"]
row: Any = [0.0] * (card["n_features"] or 1)
if columns is not None:
    row = {column["name"]: 1.0 if column["type"] == "number" else "a category" for column in columns}

# the same key twice: the row updates the prior once, and the second answer is the first
key, name = str(uuid.uuid4()), f"example {uuid.uuid4()}"
for _ in range(2):
    answer = ask("POST", "/v1/streams/example/decisions", {"row": row, "id": name}, retry_key=key)
    if answer is None:
        sys.exit(1)
    decision = answer["decisions"][0]
    show(f"decided {decision['label']!r} at probability {decision['probability']:.3f}, repeated: {answer['repeated']}")

# the truth, when it is known
told = ask("POST", "/v1/streams/example/labels", {"id": name, "label": card["classes"][-1]})
show(f"labels known: {told['known']}")

# a refusal names what is wrong
ask("POST", "/v1/streams/example/decisions", {"row": {"no such column": 1}})

state = ask("GET", "/v1/streams/example")
show(f"{state['rows']} rows, prior {state['prior']}, trusted: {state['trusted']}")
