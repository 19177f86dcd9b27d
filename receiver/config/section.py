"""What every mapping of the configuration file has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
