"""Which model answers, and how it is asked."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from worker.settings.fields import Folder, setting_of

setting = setting_of("Model")


class ModelSettings(BaseModel):
    """Which model answers, and how it is asked."""

    model: Path | None = setting(None, "GGUF file; `sample` is the sample model")
    model_name: str | None = setting(
        None, "name that answers carry [file name]", min_length=1, max_length=128
    )
    chat_template: Literal["auto", "none"] = setting(
        "auto", "auto: the GGUF's own when it has one; none: plain text"
    )
    prompt_file: Folder | None = setting(None, "Jinja file of a prompt of your own [direct-v1]")
    orders: int | None = setting(
        None, "orders that options are shown in, averaged [1; lev: 2]", ge=1, le=32
    )
    control_tokens: Literal["text", "reject"] = setting(
        "text", "control tokens spelled in a ticket: read as text, or reject it"
    )
