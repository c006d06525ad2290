"""Keep one version of a model: what the HTTP side needs of the real ones, without a store."""

from obil.service.records import ModelCard, ModelVersion, ModelVersions
from obil.service.refusals import ModelRefusedError, UnknownModelError
from obil.service.streams.model_archive import files_of_tar
from obil.service.streams.operations import Sender


class ModelsInMemory:
    """An in-memory `ModelVersions` of one model, which takes no other."""

    def __init__(self, card: ModelCard) -> None:
        self._card = card

    async def page(self) -> ModelVersions:
        one = ModelVersion(self._card.version, "folder", None, "service", None, None)
        return ModelVersions([one], self._card.version, None, None)

    async def card(self, version: str) -> ModelCard:
        if version != self._card.version:
            raise UnknownModelError("there is no such version")
        return self._card

    async def upload(self, archive: bytes, _sender: Sender) -> ModelCard:
        files_of_tar(archive)
        raise ModelRefusedError("the model cannot be used")

    async def activate(self, version: str, _sender: Sender) -> ModelCard:
        return await self.card(version)

    async def roll_back(self, _sender: Sender) -> ModelCard:
        raise UnknownModelError("no other version was active before this one")

    async def start_shadow(self, version: str, _fraction: float, _sender: Sender) -> ModelVersions:
        await self.card(version)
        raise ModelRefusedError("a shadow model must be another version than the active one")

    async def stop_shadow(self) -> ModelVersions:
        return await self.page()

    async def remove(self, version: str) -> None:
        await self.card(version)
        raise ModelRefusedError("only an uploaded model that was never active can be deleted")
