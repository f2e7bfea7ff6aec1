"""Every setting, read once from flags and environment, checked as a whole.

A group of settings is a module; they are joined to one model.
"""

from worker.settings.joined import PREFIX, Settings
from worker.settings.loading import load_settings
from worker.settings.platform import (
    SAGEMAKER_HOST,
    SAGEMAKER_PORT,
    aws_region,
    ecs_agent_url,
    ignored_variables,
    otlp_protocol,
    sagemaker_folder,
    under_sagemaker,
)
from worker.settings.queue import HEARTBEATS_PER_VISIBILITY

__all__ = [
    "HEARTBEATS_PER_VISIBILITY",
    "PREFIX",
    "SAGEMAKER_HOST",
    "SAGEMAKER_PORT",
    "Settings",
    "aws_region",
    "ecs_agent_url",
    "ignored_variables",
    "load_settings",
    "otlp_protocol",
    "sagemaker_folder",
    "under_sagemaker",
]
