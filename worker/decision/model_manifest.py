"""What a model package says about its own files."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from worker.decision.strict_file import parse_file, read_document
from worker.errors import UsageError

FILE_NAME = "model-manifest.json"
SCHEMA: Final = "model-manifest/1"

_SHA256 = "^[0-9a-f]{64}$"
# A place inside the package: nothing absolute, nothing hidden, no way up.
_NAME = "[A-Za-z0-9_][A-Za-z0-9._-]*"
_FILE = f"^{_NAME}(/{_NAME})?$"


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


class PackedFile(_Part):
    """One file of the package.

    Attributes:
        file: its place in the package.
        sha256: checksum of its bytes.
    """

    file: str = Field(pattern=_FILE)
    sha256: str = Field(pattern=_SHA256)


class ModelManifest(_Part):
    """What is in a model package, and where it came from.

    Attributes:
        schema_: version of this format.
        repository: where the model was taken from, such as the name of a repository.
        revision: which revision of it.
        file: the GGUF, or the first of its parts.
        sha256: checksum of the GGUF, or of all parts in a row.
        licence: that the model is under.
        question_sets: files that tickets may ask by name.
        policy: file that says when answers are accepted.
    """

    schema_: Literal["model-manifest/1"] = Field(SCHEMA, alias="schema")
    repository: str | None = None
    revision: str | None = None
    file: str = Field(pattern=f"^{_NAME}$")
    sha256: str = Field(pattern=_SHA256)
    licence: str | None = None
    question_sets: tuple[PackedFile, ...] = Field((), strict=False)
    policy: PackedFile | None = None


def read_manifest(name: str, content: bytes) -> ModelManifest:
    """Parse a manifest: ours, or that of AWS's SemIf sample (``{"gguf": {…}, …}``).

    Args:
        name: of the file, for messages.
        content: its bytes.

    Raises:
        UsageError: naming the file, the place and the reason.
    """
    tree = parse_file(FILE_NAME, content)
    if isinstance(tree, dict) and "schema" not in tree and isinstance(tree.get("gguf"), dict):
        return _from_sample(name, tree["gguf"])
    return read_document(ModelManifest, name, content)


def _from_sample(name: str, gguf: dict[str, Any]) -> ModelManifest:
    names = {"repository": "repo", "revision": "revision", "file": "file", "sha256": "sha256"}
    try:
        return ModelManifest.model_validate({ours: gguf.get(its) for ours, its in names.items()})
    except ValueError:
        raise UsageError(f"{name}: gguf: needs file and sha256") from None
