"""Command-line options made from the settings, so that one name serves everywhere."""

import types
import typing
from pathlib import Path
from typing import Any, Literal

import click
import structlog
from pydantic_core import PydanticUndefined

from worker.local.sample_model import assemble_sample_model
from worker.log import configure_log
from worker.package.archive import SETS_FOLDER
from worker.package.contents import find_model, open_package
from worker.settings import Settings, ignored_variables, load_settings, sagemaker_folder

_log = structlog.get_logger()

SAMPLE = Path("sample")
"""The value of ``--model`` that means the sample model."""

_OWN = "Options"
_METAVARS = {int: "N", float: "SECONDS", Path: "PATH"}


class SettingsCommand(click.Command):
    """A command with an option for every setting of some groups, listed by group.

    Args:
        groups: names of groups of settings; all others are read from the environment only.
        settings: names of single settings beside those.
        attributes: of a click command.
    """

    def __init__(
        self,
        *args: Any,
        groups: tuple[str, ...] = (),
        settings: tuple[str, ...] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        options = map(_SettingOption, Settings.model_fields)
        self.params += [
            option for option in options if option.group in groups or option.name in settings
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options first, then each group of settings."""
        groups: dict[str, list[tuple[str, str]]] = {_OWN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", _OWN), []).append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class _SettingOption(click.Option):
    """An option that stands for one setting; its value is checked later, with all others."""

    def __init__(self, name: str) -> None:
        field = Settings.model_fields[name]
        extra = typing.cast("dict[str, Any]", field.json_schema_extra)
        kind = _kind(field.annotation)
        flag = name.replace("_", "-")
        is_switch = kind is bool
        is_list = typing.get_origin(kind) is tuple
        super().__init__(
            [f"--{flag}/--no-{flag}" if is_switch else f"--{flag}", name],
            default=None,
            multiple=is_list,
            type=bool if is_switch else str,
            metavar=None if is_switch else _metavar(kind),
            help=_help(field.description or "", field.default),
        )
        self.group = str(extra["group"])


def read_settings(flags: dict[str, Any], *, usual_log_level: str | None = None) -> Settings:
    """Read the settings from given flags and the environment; assemble the sample if asked for.

    Args:
        flags: by field name; None is not given.
        usual_log_level: for a command whose output is not its log, unless one is set.

    Raises:
        UsageError: everything that is wrong, in one line.
    """
    settings = load_settings(
        {name: value for name, value in flags.items() if value not in (None, ())}
    )
    is_set = "log_level" in settings.model_fields_set
    level = settings.log_level if is_set or usual_log_level is None else usual_log_level
    configure_log(level, settings.log_format, settings.log_share)
    if settings.model == SAMPLE and not SAMPLE.exists():
        path, _ = assemble_sample_model(settings.cache_dir)
        settings = settings.model_copy(update={"model": path})
    if ignored := ignored_variables():
        _log.warning("container_variables_ignored", names=ignored)
    return _from_package(settings)


def _from_package(settings: Settings) -> Settings:
    """Find the model in a folder, and what its package brings along, unless other is set."""
    folder = settings.model or sagemaker_folder()
    if folder is None or not folder.is_dir():
        return settings
    found: dict[str, Any] = {"model": find_model(folder)}
    package = open_package(folder)
    if package is not None:
        if package.manifest.question_sets and settings.question_sets is None:
            found["question_sets"] = str(folder / SETS_FOLDER)
        if package.manifest.policy is not None and settings.policy is None:
            found["policy"] = str(folder / package.manifest.policy.file)
    return settings.model_copy(update=found)


def _kind(annotation: Any) -> Any:
    """Return the type of a setting without its None and without what checks it."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kinds = typing.get_args(annotation)
        return _kind(next(kind for kind in kinds if kind is not types.NoneType))
    if typing.get_origin(annotation) is typing.Annotated:
        return typing.get_args(annotation)[0]
    return annotation


def _metavar(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "|".join(typing.get_args(kind))
    return _METAVARS.get(kind, "TEXT")


def _help(description: str, default: Any) -> str:
    # A default that is computed is told by the description.
    if default in (None, PydanticUndefined, ()) or isinstance(default, bool):
        return description
    return f"{description} [{default}]"
