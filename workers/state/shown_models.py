"""An agent's model list as clients see it."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from termal.model.session import ModelOption, ServiceTier
from termal.wire.turns import ModelDetail

_NOTHING = ModelDetail()


def model_options(
    options: Sequence[tuple[str, str, str | None]], details: Mapping[str, ModelDetail]
) -> list[ModelOption]:
    """``options`` are triples of value, label and description; ``details`` by value, where the agent told them."""
    return [_option(value, label, text, details.get(value, _NOTHING)) for value, label, text in options]


def _option(value: str, label: str, text: str | None, detail: ModelDetail) -> ModelOption:
    tiers = [ServiceTier(id=tier, label=name, description=said or UNSET) for tier, name, said in detail.tiers]
    return ModelOption(
        label=label,
        value=value,
        description=UNSET if text is None else text,
        default_reasoning_effort=detail.default_effort or UNSET,
        supported_reasoning_efforts=detail.efforts or UNSET,
        service_tiers=tiers or UNSET,
    )
