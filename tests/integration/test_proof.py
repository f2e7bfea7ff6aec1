"""A model or build that cannot run here is found out in a child process, and said in one line."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from tests.models import ALL_KINDS, Tiny, TinyModels
from worker.engine.model_files import check_files
from worker.engine.proof import prove_build
from worker.errors import CannotRun, ExitCode

NO_GPU = 0


@pytest.mark.parametrize("tiny", ALL_KINDS, ids=str)
def test_a_build_that_runs_is_proved(tiny: Tiny, tiny_models: TinyModels) -> None:
    """Every kind of model passes on a build that can run it."""
    prove_build(tiny_models.path(tiny), NO_GPU)


def library_that(does: str, folder: Path) -> Path:
    """Compile a libllama.so that does something when it is loaded; return its folder."""
    source = folder / "library.c"
    source.write_text(
        textwrap.dedent(
            f"""
            #include <signal.h>
            #include <unistd.h>
            __attribute__((constructor)) static void loaded(void) {{ {does} }}
            """
        )
    )
    compiler = shutil.which("cc")
    assert compiler is not None
    library = folder / "libllama.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return folder


def test_a_foreign_processor_is_named(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that dies with an illegal instruction becomes one sentence with the remedy."""
    folder = library_that("kill(getpid(), SIGILL);", tmp_path)
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(folder))
    with pytest.raises(CannotRun) as caught:
        prove_build(tiny_models.path(), NO_GPU)
    assert "illegal instruction" in str(caught.value)
    assert "rebuild llama-cpp-python" in str(caught.value)
    assert "-mno-amx-tile" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ExitCode.CANNOT_RUN == caught.value.exit_code


def test_another_crash_is_named(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash that is no illegal instruction is named by its signal."""
    folder = library_that("kill(getpid(), SIGBUS);", tmp_path)
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(folder))
    with pytest.raises(CannotRun, match="SIGBUS"):
        prove_build(tiny_models.path(), NO_GPU)


def test_a_missing_library_is_named(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build whose library is gone says that llama.cpp cannot be loaded, and the remedy."""
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    with pytest.raises(CannotRun) as caught:
        prove_build(tiny_models.path(), NO_GPU)
    assert str(caught.value).startswith("llama.cpp cannot be loaded:")
    assert "rebuild llama-cpp-python" in str(caught.value)
    assert "\n" not in str(caught.value)


def with_doubles(source: Path, target: Path) -> Path:
    """Copy a GGUF with its matrices as 64-bit floats, which llama.cpp loads but cannot multiply."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, arch="llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        element = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element)
    for tensor in reader.tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) > 1:
            data = tensor.data.astype("float64")
            writer.add_tensor(tensor.name, data, raw_dtype=GGMLQuantizationType.F64)
        else:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def test_a_model_that_crashes_llama_cpp(tiny_models: TinyModels, tmp_path: Path) -> None:
    """A model that crashes llama.cpp in its first decode crashes the child, not the worker."""
    model = with_doubles(tiny_models.path(), tmp_path / "doubles.gguf")
    with pytest.raises(CannotRun, match=r"llama.cpp crashed at its first decode \(SIG[A-Z]+\)"):
        prove_build(model, NO_GPU)


def test_a_truncated_model(tiny_models: TinyModels, tmp_path: Path) -> None:
    """A model that ends too early is refused with llama.cpp's reason, in one line."""
    whole = tiny_models.path().read_bytes()
    model = tmp_path / "truncated.gguf"
    model.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(CannotRun) as caught:
        prove_build(model, NO_GPU)
    assert str(caught.value).startswith(f"llama.cpp cannot load {model}: ")
    assert "\n" not in str(caught.value)


def test_offload_without_a_gpu_build(tiny_models: TinyModels) -> None:
    """Layers for a GPU that the build does not know are refused, with the setting's name."""
    with pytest.raises(CannotRun, match="gpu_layers is 7, but this build"):
        prove_build(tiny_models.path(), 7)


# --- what is checked before llama.cpp is asked ----------------------------------------------------


def test_a_good_file(tiny_models: TinyModels) -> None:
    """A GGUF that fits returns its size."""
    path = tiny_models.path()
    assert path.stat().st_size == check_files(path, 1 << 30)


def refused(path: Path, memory_bytes: int = 1 << 30) -> str:
    with pytest.raises(CannotRun) as caught:
        check_files(path, memory_bytes)
    return str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """A model that is not there is named."""
    path = tmp_path / "missing.gguf"
    assert f"the model {path} cannot be read: No such file or directory" == refused(path)


def test_a_folder(tmp_path: Path) -> None:
    """A folder is not a model."""
    assert f"the model {tmp_path} cannot be read: Is a directory" == refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04 an archive", b"gguf" * 8])
def test_a_file_that_is_not_gguf(content: bytes, tmp_path: Path) -> None:
    """A file without GGUF's first four bytes is refused, an empty one too."""
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    assert f"the model {path} is not a GGUF file" == refused(path)


def test_a_model_larger_than_memory(tmp_path: Path) -> None:
    """A model that cannot fit is refused with both sizes, before it is read."""
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(40 << 30)  # sparse: takes no room
    assert (
        f"the model {path} needs 40.0 GiB of memory for its weights alone, 8.0 GiB are free"
        == refused(path, 8 << 30)
    )
