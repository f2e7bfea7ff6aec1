"""Questions as System One asks them: a type, instructions, and the declared options."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_OPTIONS = 255
MAX_LEVELS = 10

Text = str | dict[str, Any] | list[Any]
"""Free text, or structured data whose field order carries meaning."""


@dataclass(frozen=True, slots=True)
class Option:
    """One admissible answer.

    Attributes:
        key: how the answer names it.
        description: what it means, or None when the key says it all.
    """

    key: str
    description: Text | None


class _Question(BaseModel):
    # hide_input_in_errors: a question is the customer's text.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    instructions: Text | None = None


class Choice(_Question):
    """Which one of these options?"""

    type: Literal["choice"]
    criteria: dict[str, Text | None] = Field(min_length=1, max_length=MAX_OPTIONS)

    @model_validator(mode="after")
    def _names_are_not_empty(self) -> "Choice":
        if "" in self.criteria:
            raise ValueError("an option has an empty name")
        return self

    def options(self) -> tuple[Option, ...]:
        """Return the options in request order."""
        return tuple(Option(key, description) for key, description in self.criteria.items())


class Score(_Question):
    """How much, on a scale from low to high?"""

    type: Literal["score"]
    criteria: list[Text] = Field(min_length=1, max_length=MAX_LEVELS)

    def options(self) -> tuple[Option, ...]:
        """Return the levels from low to high, keyed by their number."""
        return tuple(Option(str(level), text) for level, text in enumerate(self.criteria))


class Noul(_Question):
    """True or false?"""

    OUTCOMES: ClassVar[tuple[str, str]] = ("true", "false")

    type: Literal["noul"]
    criteria: dict[Literal["true", "false"], Text | None] | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> "Noul":
        described = self.criteria and any(text for text in self.criteria.values())
        if not self.instructions and not described:
            raise ValueError("needs instructions or a described outcome")
        return self

    def options(self) -> tuple[Option, ...]:
        """Return the outcomes, true first."""
        criteria: dict[Any, Text | None] = dict(self.criteria or {})
        return tuple(Option(outcome, criteria.get(outcome)) for outcome in self.OUTCOMES)


Question = Annotated[Choice | Score | Noul, Field(discriminator="type")]
