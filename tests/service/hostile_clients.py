"""Be one of the clients that would take a service down: python -m tests.service.hostile_clients NAME PORT."""

import json
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection

DECISIONS = "/v1/streams/hostile/decisions"


def head(n_bytes: int, more: str = "") -> bytes:
    return (
        f"POST {DECISIONS} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"{more}content-length: {n_bytes}\r\n\r\n"
    ).encode()


def opened(port: int, number: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port), timeout=30.0) for _ in range(number)]


def idle_connections(port: int) -> Counter[str]:
    """Open 1,100 connections and send nothing."""
    connections = opened(port, 1_100)
    time.sleep(4.0)
    return Counter(opened=len(connections))


def slow_heads(port: int) -> Counter[str]:
    """Send 500 heads, a byte each second."""
    connections, found = opened(port, 500), Counter[str]()
    text = b"POST " + b"/" * 100
    for place in range(len(text)):
        for connection in list(connections):
            try:
                connection.sendall(text[place : place + 1])
                connection.setblocking(False)
                found[status_of(connection.recv(100))] += 1
                connections.remove(connection)
            except BlockingIOError:
                pass
            except OSError:
                found["closed"] += 1
                connections.remove(connection)
        if not connections:
            break
        time.sleep(1.0)
    found["open"] = len(connections)
    return found


def slow_bodies(port: int) -> Counter[str]:
    """Begin 700 bodies and send no more of them."""
    connections = opened(port, 700)
    for connection in connections:
        connection.sendall(head(100) + b"{")
    time.sleep(4.0)
    return answers(connections, 0.5)


def large_bodies(port: int) -> Counter[str]:
    """Send 200 times 7 MB at once, of as many rows as a request may have."""
    row = f"[{','.join(['0.' + '1' * 43] * 3)}]"
    return sent_together(port, 200, f'{{"rows":[{",".join([row] * 50_000)}]}}'.encode())


def many_arrays(port: int) -> Counter[str]:
    """Send 8 MB of empty arrays, ten times at once."""
    return sent_together(port, 10, b'{"rows":[' + b"[]," * 2_660_000 + b"[]]}")


def wrong_keys(port: int) -> Counter[str]:
    """Send 10,000 requests, each with another key that does not exist."""
    found = Counter[str]()
    connection = HTTPConnection("127.0.0.1", port, timeout=30.0)
    for number in range(10_000):
        key = f"Bearer obil_{number:012x}_{number:064x}"
        connection.request("POST", DECISIONS, json.dumps({"row": [0, 0, 0]}), {"authorization": key})
        response = connection.getresponse()
        response.read()
        found[str(response.status)] += 1
    return found


def sent_together(port: int, number: int, body: bytes) -> Counter[str]:
    """Send a body over many connections, to each as fast as it takes it."""
    message = memoryview(head(len(body)) + body)
    places = dict.fromkeys(opened(port, number), 0)
    found = Counter[str]()
    with selectors.DefaultSelector() as ready:
        for connection in places:
            connection.setblocking(False)
            ready.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while ready.get_map():
            for key, events in ready.select(timeout=60.0):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                try:
                    if events & selectors.EVENT_READ:
                        found[status_of(connection.recv(100))] += 1
                        ready.unregister(connection)
                        connection.close()
                        continue
                    place = places[connection]
                    places[connection] += connection.send(message[place : place + 65_536])
                    if places[connection] == len(message):
                        ready.modify(connection, selectors.EVENT_READ)
                except OSError:
                    found["closed"] += 1
                    ready.unregister(connection)
    return found


def answers(connections: list[socket.socket], seconds: float) -> Counter[str]:
    """Return what was answered so far."""
    found = Counter[str]()
    until = time.monotonic() + seconds
    for connection in connections:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            found[status_of(connection.recv(100))] += 1
        except TimeoutError:
            found["open"] += 1
        except OSError:
            found["closed"] += 1
    return found


def status_of(text: bytes) -> str:
    return text[9:12].decode() if text else "closed"


CLIENTS: dict[str, Callable[[int], Counter[str]]] = {
    run.__name__: run for run in (idle_connections, slow_heads, slow_bodies, large_bodies, many_arrays, wrong_keys)
}

if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](int(sys.argv[2]))))
