"""Put load on services, kill them, start them again, and audit what they kept."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np

from obil.service.streams.model_registry import ModelRegistry
from tests.crash.audit import StreamAudit, new_audits
from tests.crash.load import ACKNOWLEDGED, DECISIONS, ERASED_FROM, ERASURES, Sender, Sent
from tests.service.postgres import PostgresServer, open_test_store
from tests.service.service_process import ServiceLauncher, ServiceProcess, kill_all

PATIENCE = 60.0  # seconds
MOST_ACKNOWLEDGED, LONGEST_LOAD = 300, 15.0  # requests and seconds of a round, before something is killed
MEMORY_STREAMS = 2  # fewer than there are: they leave memory and are restored all the time
KEPT_FOR_LATER = 100  # acknowledged requests that are sent again in later rounds


class CrashRounds:
    """A store, the services on it, and all that was ever acknowledged."""

    def __init__(
        self,
        launcher: ServiceLauncher,
        folder: Path,
        url: str,
        *,
        n_services: int = 1,
        n_clients: int = 6,
        server: PostgresServer | None = None,
        seed: int = 0,
    ) -> None:
        self._launcher, self._folder, self._url, self._server = launcher, folder, url, server
        self._rng, self._seed, self._n_clients = np.random.default_rng(seed), seed, n_clients
        self._services: list[ServiceProcess] = [self._start() for _ in range(n_services)]
        self._audits = new_audits()
        self._keyed: list[Sent] = []  # acknowledged, with a key
        self._erased: set[str] = set()
        self._n_rounds = 0
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def round(self) -> None:
        """Kill something under load, and account for everything that was sent."""
        stop, number = threading.Event(), self._n_rounds
        self._n_rounds += 1
        senders = [
            Sender(f"r{number}c{place}", (self._seed, number, place), self._addresses, stop)
            for place in range(self._n_clients)
        ]
        for sender in senders:
            sender.start()
        self._wait_for_load(senders)
        if self._server is not None and number % 5 == 4:
            self._server.kill()
            self.counts["kills of the database"] += 1
            time.sleep(self._rng.uniform(0.0, 0.5))
            self._server.start()
        else:
            self._kill_services()
        stop.set()
        for sender in senders:
            sender.join(PATIENCE)
        self._revive()
        self._account([one for sender in senders for one in sender.sent])
        self.faults += [f"a strange answer: {text}" for sender in senders for text in sender.strange]

    def finish(self) -> None:
        """Stop cleanly, and replay every log from its first event."""
        for service in self._services:
            code = service.stop()
            if code not in (0, -signal.SIGTERM):  # the server ends by the signal it was sent, once all is written
                self.faults.append(f"a service that was told to stop ended with {code}")
        self._follow(whole=True)
        for audit in self._audits.values():
            self.faults += audit.faults
            self.counts["rows in the log"] += audit.n_rows
            self.counts["labels in the log"] += audit.n_labels

    def _start(self) -> ServiceProcess:
        return self._launcher.start(self._url, memory_streams=MEMORY_STREAMS)

    def _addresses(self) -> list[str]:
        return [service.address for service in self._services]

    def _wait_for_load(self, senders: list[Sender]) -> None:
        """Wait until a random number of requests was acknowledged, and then for a random moment."""
        wanted, end = int(self._rng.integers(1, MOST_ACKNOWLEDGED)), time.monotonic() + LONGEST_LOAD
        while sum(one.n_acknowledged for one in senders) < wanted and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(self._rng.uniform(0.0, 0.03))

    def _kill_services(self) -> None:
        chosen = [service for service in self._services if self._rng.random() < 0.6]
        kill_all(chosen or self._services[:1])
        self.counts["kills of a service"] += len(chosen) or 1
        time.sleep(0.1)  # the rest continues

    def _revive(self) -> None:
        for place, service in enumerate(self._services):
            if service.exit_code is None:
                continue
            if self._rng.random() < 0.15:  # it dies while it starts, too
                unborn = self._launcher.begin(self._url, memory_streams=MEMORY_STREAMS)
                time.sleep(self._rng.uniform(0.0, 0.6))
                unborn.kill()
                self.counts["kills of a service"] += 1
            self._services[place] = self._start()
        end = time.monotonic() + PATIENCE
        for address in self._addresses():  # one that lost its database recovers by itself
            while httpx.get(f"{address}/readyz", timeout=PATIENCE).status_code != ACKNOWLEDGED:
                if time.monotonic() > end:
                    raise RuntimeError("a service does not recover")
                time.sleep(0.05)

    def _account(self, sent: list[Sent]) -> None:
        self._follow()
        with httpx.Client(timeout=PATIENCE) as client:
            self._finish_erasures([one for one in sent if one.kind == ERASURES], client)
            for request in sent:
                if request.answer is None and request.kind != ERASURES:
                    self._ask_again(request, client)
            asked_again = [one for one in sent if one.key is not None and one.answer is not None]
            for request in [*self._pick(asked_again, 20), *self._pick(self._keyed, 10)]:
                self._expect_repeated(request, client)
            self._keyed = self._pick([*self._keyed, *asked_again], KEPT_FOR_LATER)
            self._follow()
            for address in self._addresses():
                for name, audit in self._audits.items():
                    detail = client.get(f"{address}/v1/streams/{name}")
                    if detail.status_code == ACKNOWLEDGED:
                        audit.compare_with_service(detail.json())
                        self.counts["states compared"] += 1
                    elif audit.n_rows:
                        self.faults.append(f"{name}: {detail.status_code} {detail.text:.200}")
        for request in sent:
            if request.answer is not None and request.kind != ERASURES:
                self.counts[f"acknowledged {request.kind}"] += len(request.ids)
                lost = self._audits[request.stream].lost(request)
                self.counts[f"lost {request.kind}"] += len(lost)
                self.faults += lost

    def _finish_erasures(self, erasures: list[Sent], client: httpx.Client) -> None:
        """Send erasures again that were cut off, and look for what was erased in all rows and files."""
        for request in erasures:
            if request.answer is not None:
                self.counts["acknowledged erasures"] += 1
                continue
            answer = request.post(client, self._any_address())
            self.counts["erasures that were cut off"] += 1
            if answer.status_code not in (ACKNOWLEDGED, 404):  # 404: it was erased before the answer was cut off
                self.faults.append(f"{request.stream}: an erasure got {answer.status_code} {answer.text:.200}")
        self._erased |= {name for request in erasures for name in request.ids}
        audit = self._audits[ERASED_FROM]
        audit.erase(self._erased)
        store = open_test_store(self._url)
        try:
            store.open_secret()
            self.faults += audit.found_again(store)
        finally:
            store.close()
        if self._server is None:
            for path in Path(self._url).parent.glob(f"{Path(self._url).name}*"):
                found = audit.in_bytes(path.read_bytes())
                self.faults += [f"{path.name} holds {name!r}, which was erased" for name in found]
                self.counts["files searched for erased ids"] += 1

    def _ask_again(self, request: Sent, client: httpx.Client) -> None:
        """Account for a request that was cut off or refused: with a key it is sent again, and counts once."""
        known = request.kind != DECISIONS or "ids" in request.body
        kept = known and self._audits[request.stream].is_kept(request)
        self.counts["cut off and kept" if kept else "cut off or refused, and not kept"] += 1
        if request.status == 503 and kept and self._server is None:
            self.faults.append(f"{request.stream}: answered 503, and kept {request.ids[:1]}")
        if request.key is None:
            return
        answer = request.post(client, self._any_address())
        if answer.status_code == 404 and request.kind != DECISIONS:  # its stream was never made
            return
        if answer.status_code != ACKNOWLEDGED:
            self.faults.append(f"{request.stream}: a retry got {answer.status_code} {answer.text:.200}")
            return
        request.answer = answer.json()
        self.counts["retries of what was cut off"] += 1
        if known and request.answer["repeated"] != kept:
            self.faults.append(f"{request.stream}: {request.key} was kept: {kept}, repeated: {not kept}")
        self._expect_repeated(request, client)

    def _expect_repeated(self, request: Sent, client: httpx.Client) -> None:
        response = request.post(client, self._any_address())
        if request.stream == ERASED_FROM and not self._erased.isdisjoint(request.ids):
            self.counts["retries of what was erased"] += 1
            if response.status_code != 410:
                self.faults.append(f"{request.stream}: a retry of {request.key}, erased, got {response.status_code}")
            return
        answer = response.json()
        expected = {**(request.answer or {}), "repeated": True}
        self.counts["retries of what was acknowledged"] += 1
        if answer != expected:
            self.faults.append(f"{request.stream}: a retry of {request.key} is answered otherwise: {answer!r:.300}")

    def _any_address(self) -> str:
        return str(self._rng.choice(self._addresses()))

    def _pick(self, requests: list[Sent], n: int) -> list[Sent]:
        if len(requests) <= n:
            return list(requests)
        return [requests[int(place)] for place in self._rng.choice(len(requests), size=n, replace=False)]

    def _follow(self, *, whole: bool = False) -> None:
        store = open_test_store(self._url)
        try:
            models = ModelRegistry(self._folder, store).get
            audits: list[StreamAudit] = list(self._audits.values())
            for audit in audits:
                audit.follow(store, models)
                if whole:
                    audit.compare_whole(store, models)
                    self.counts["whole logs replayed"] += 1
        finally:
            store.close()


Report = Callable[[str], None]


def run_rounds(rounds: CrashRounds, n_rounds: int, report: Report) -> list[str]:
    """Run rounds to their end; return what went wrong."""
    began = time.monotonic()
    for number in range(n_rounds):
        rounds.round()
        if (number + 1) % 10 == 0:
            report(f"  {number + 1} rounds, {time.monotonic() - began:.0f} s, {len(rounds.faults)} faults")
    rounds.finish()
    return rounds.faults
