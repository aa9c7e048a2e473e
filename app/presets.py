"""How one chat is answered where it differs from the settings, and such choices under a name."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Sampling(BaseModel):
    """Choices for one chat; None leaves it to the settings."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    temperature: float | None = Field(default=None, ge=0.0, le=5.0)
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    thinking: bool | None = None

    def over(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a request with these choices in the place of those from the settings."""
        chosen = self.model_dump(exclude_none=True)
        thinking = chosen.pop("thinking", None)
        options = options | chosen
        if thinking is not None:
            options["template_options"] = options.get("template_options", {}) | {"enable_thinking": thinking}
        return options

    def to_json(self) -> str:
        """As it is kept."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def from_json(cls, text: str) -> Sampling:
        """Read a kept one back; what cannot be used is left to the settings."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return cls()


class Preset(BaseModel):
    """A system prompt and sampling under a name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1, max_length=80)
    system_prompt: str = Field(default="", max_length=100_000)
    sampling: Sampling = Sampling()
