"""The form that all records share."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen value that survives a round trip through JSON.

    Unknown fields are ignored, so that a history written by a newer release can be read by an older worker;
    what people type (settings, decisions) is judged by stricter readers at the edge.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
