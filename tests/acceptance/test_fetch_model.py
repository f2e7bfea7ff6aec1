"""What the ECS task runs to put the model in place, run as it stands in the template."""

import hashlib
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from tests.acceptance.conftest import CREDENTIALS, REGION
from tests.template_rules import read_template
from worker.package.archive import Origin, write_package

TEMPLATE = Path(__file__).parents[2] / "infra" / "worker-ecs.yaml"


@pytest.mark.parametrize("is_whole", [True, False])
def test_model_is_unpacked_when_its_checksum_is_right(
    environment: dict[str, str], tmp_path: Path, is_whole: bool
) -> None:
    """A package that is another than the stack says does not start, and both sums are told."""
    containers = read_template(TEMPLATE)["Resources"]["Task"]["Properties"]["ContainerDefinitions"]
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF weights")
    packed = write_package(tmp_path / "model.tar.gz", model, Origin())
    s3 = boto3.client(
        "s3", region_name=REGION, endpoint_url=environment["AWS_ENDPOINT_URL"], **CREDENTIALS
    )
    s3.create_bucket(Bucket="models")
    s3.upload_file(str(tmp_path / "model.tar.gz"), "models", "a/model.tar.gz")
    s3.close()
    said = packed.sha256 if is_whole else hashlib.sha256(b"another").hexdigest()
    folder = tmp_path / "models"
    folder.mkdir()

    ran = subprocess.run(
        [sys.executable, "-c", *containers[0]["Command"]],
        env={**environment, "AWS_DEFAULT_REGION": REGION, "BUCKET": "models",
             "KEY": "a/model.tar.gz", "SHA256": said, "FOLDER": str(folder)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    if is_whole:
        assert 0 == ran.returncode, ran.stderr
        assert ["model-manifest.json", "model.gguf"] == sorted(p.name for p in folder.iterdir())
    else:
        assert 1 == ran.returncode
        assert packed.sha256 in ran.stderr
        assert said in ran.stderr
        assert not (folder / "model.gguf").exists()
