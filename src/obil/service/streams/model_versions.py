"""Upload, activate, compare and delete versions of the model while streams are decided."""

import asyncio
from collections.abc import Callable

from obil.errors import ObilError
from obil.online.online_classifier import OnlineClassifier
from obil.service import records
from obil.service.refusals import ModelRefusedError, RefusedError, UnknownModelError
from obil.service.streams.live_stream import utc
from obil.service.streams.model_registry import ModelRegistry, previous_of
from obil.service.streams.operations import Sender


class ModelVersions:
    """The versions of the model, for the routes; `follow` makes the streams of this process use the active one.

    `new_online` returns a stream without rows: a model that cannot take it over is not activated.
    """

    def __init__(
        self, registry: ModelRegistry, *, follow: Callable[[], None], new_online: Callable[[], OnlineClassifier]
    ) -> None:
        self._registry, self._follow, self._new_online = registry, follow, new_online
        self._uploading = asyncio.Lock()  # one at a time: loading a model takes a processor

    async def page(self) -> records.ModelVersions:
        """Return all versions, the newest first."""
        return await asyncio.to_thread(self._page)

    async def card(self, version: str) -> records.ModelCard:
        """Return the model card of a version."""
        return await asyncio.to_thread(self._card, version)

    async def upload(self, archive: bytes, sender: Sender) -> records.ModelCard:
        """Store a model without activating it."""
        async with self._uploading:
            return await _in_thread(self._upload, archive, sender)

    async def activate(self, version: str, sender: Sender) -> records.ModelCard:
        """Make a stored version the active one; streams keep their prior."""
        return await _in_thread(self._activate, version, sender)

    async def roll_back(self, sender: Sender) -> records.ModelCard:
        """Make the version active that was it before; done twice, nothing has changed."""
        return await _in_thread(lambda: self._activate(self._registry.previous_version(), sender))

    async def start_shadow(self, version: str, fraction: float, sender: Sender) -> records.ModelVersions:
        """Compare a version with the active one, on a fraction of the rows of all streams."""
        return await _in_thread(self._start_shadow, version, fraction, sender)

    async def stop_shadow(self) -> records.ModelVersions:
        """Compare no version."""
        return await _in_thread(self._stop_shadow)

    async def remove(self, version: str) -> None:
        """Delete an uploaded version that was never active."""
        await _in_thread(self._registry.remove, version)

    def _page(self) -> records.ModelVersions:
        models, active = self._registry.versions(), self._registry.active_version()
        try:
            previous = previous_of(models, active)
        except UnknownModelError:
            previous = None
        shown = [
            records.ModelVersion(
                version=one.version,
                source=one.source,
                added=None if one.added is None else utc(one.added),
                by=one.added_by,
                activated=utc(one.activated) if one.activated else None,
                activated_by=one.activated_by,
            )
            for one in reversed(models)
        ]
        found = self._registry.shadow()
        shadow = None
        if found.version is not None:
            shadow = records.Shadow(found.version, found.fraction, utc(found.since), found.by)
        return records.ModelVersions(shown, active, previous, shadow)

    def _card(self, version: str) -> records.ModelCard:
        if all(one.version != version for one in self._registry.versions()):
            raise UnknownModelError(f"there is no version {version!r:.40} of the model")
        return self._registry.card(version)

    def _upload(self, archive: bytes, sender: Sender) -> records.ModelCard:
        from obil.service.streams.model_archive import files_of_tar  # noqa: PLC0415  # a start needs no upload

        return self._registry.card(self._registry.add(files_of_tar(archive), by=sender.by))

    def _start_shadow(self, version: str, fraction: float, sender: Sender) -> records.ModelVersions:
        self._registry.start_shadow(version, fraction=fraction, by=sender.by)
        self._follow()
        return self._page()

    def _stop_shadow(self) -> records.ModelVersions:
        self._registry.stop_shadow()
        self._follow()
        return self._page()

    def _activate(self, version: str, sender: Sender) -> records.ModelCard:
        card = self._card(version)
        self._new_online().model = self._registry.get(version)
        self._registry.activate(version, by=sender.by)
        self._follow()
        return card


async def _in_thread(work: Callable[..., records.Record], *arguments: object) -> records.Record:
    """Run some work on a model in another thread; a model that cannot be read or used is refused."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except RefusedError:
        raise
    except (ObilError, OSError) as error:
        raise ModelRefusedError(f"the model cannot be used: {error}") from None
