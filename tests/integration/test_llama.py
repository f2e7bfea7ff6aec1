"""llama.cpp's handles: what would abort the process is refused first, and text stays text."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import llama_cpp.llama_cpp as native
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.integration.processes import in_a_child
from tests.models import ALL_KINDS, CHATML, QUANTISED_OPTIONS, Tiny, TinyModels
from worker.decision.prompt import chat_frame
from worker.decision.text import Piece
from worker.engine.calls import NativeError
from worker.engine.exact import FORK, TRUNK
from worker.engine.llama import Context, Model, describe_build
from worker.engine.options import ModelOptions
from worker.errors import CannotRun

TOKENS = [300, 301, 302, 303]
LABELS = (300, 310, 320)


@pytest.fixture(params=ALL_KINDS, ids=str)
def model(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    return tiny_models.load(request.param)


@pytest.fixture
def llama(tiny_models: TinyModels) -> Model:
    return tiny_models.load()


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 513, 5000])
def test_a_call_holds_one_token_to_a_batch(llama: Model, count: int) -> None:
    """No tokens, or more than a batch, are refused with the numbers; the context works on."""
    with Context(llama, QUANTISED_OPTIONS) as context:
        with pytest.raises(NativeError, match=f"{count} tokens in one call; 1 to 512 fit"):
            context.decode([300] * count, position=0, sequence=TRUNK)
        assert context.is_empty()
        context.decode([300] * 512, position=0, sequence=TRUNK, read=True)
        context.read(LABELS)


def test_a_batch_larger_than_the_context(tiny_models: TinyModels) -> None:
    """llama.cpp cuts a batch to the context's size: more tokens than that are refused too."""
    code = """
        import sys
        from pathlib import Path
        from worker.engine.calls import NativeError
        from worker.engine.llama import Context, Model
        from worker.engine.options import ModelOptions

        options = ModelOptions(context_tokens=256, threads=1)
        with Model.load(Path(sys.argv[1]), options) as model, Context(model, options) as context:
            try:
                context.decode([300] * 300, position=0, sequence=0)
            except NativeError as error:
                print("refused:", error)
    """
    child = in_a_child(code, str(tiny_models.path()))
    assert (0, "refused") == (child.returncode, child.stdout.partition(":")[0])


def test_reading_needs_the_flag(model: Model) -> None:
    """Logits that were not asked for are refused, not stale ones of an earlier call returned."""
    with Context(model, QUANTISED_OPTIONS) as context:
        with pytest.raises(NativeError, match="no logits"):
            context.read(LABELS)
        context.decode(TOKENS, position=0, sequence=TRUNK, read=True)
        context.read(LABELS)
        context.decode(TOKENS, position=4, sequence=TRUNK, read=False)
        with pytest.raises(NativeError, match="no logits"):
            context.read(LABELS)


def test_a_fork_continues_where_the_trunk_ends(model: Model) -> None:
    """A fork reads what the trunk itself would read, and leaves the trunk as it was."""
    with Context(model, QUANTISED_OPTIONS) as context:
        context.decode(TOKENS, position=0, sequence=TRUNK)
        readings = []
        for _ in range(2):
            context.fork()
            context.decode(TOKENS, position=4, sequence=FORK, read=True)
            readings.append(context.read(LABELS))
            context.remove(FORK)
        context.decode(TOKENS, position=4, sequence=TRUNK, read=True)
        readings.append(context.read(LABELS))
        assert [readings[0]] * 3 == readings


def test_removal_leaves_nothing(model: Model) -> None:
    """A context is empty until it decodes, full until both sequences are removed."""
    with Context(model, QUANTISED_OPTIONS) as context:
        assert context.is_empty()
        context.remove(TRUNK)
        context.remove(FORK)
        context.decode(TOKENS, position=0, sequence=TRUNK)
        assert not context.is_empty()
        context.fork()
        context.remove(TRUNK)
        assert not context.is_empty()
        context.remove(FORK)
        assert context.is_empty()


def test_a_refused_call_leaves_the_context_usable(llama: Model) -> None:
    """llama.cpp's own refusal carries its code and the numbers; the next ticket reads the same."""
    with Context(llama, QUANTISED_OPTIONS) as context:
        context.decode(TOKENS, position=0, sequence=TRUNK, read=True)
        expected = context.read(LABELS)
        with pytest.raises(NativeError, match="llama_decode returned -1 for 4 tokens at 9"):
            context.decode(TOKENS, position=9, sequence=TRUNK)
        context.remove(TRUNK)
        assert context.is_empty()
        context.decode(TOKENS, position=0, sequence=TRUNK, read=True)
        assert expected == context.read(LABELS)


def test_a_token_outside_the_vocabulary(llama: Model) -> None:
    """A token that does not exist is refused."""
    with Context(llama, QUANTISED_OPTIONS) as context:
        with pytest.raises(NativeError, match="returned -1"):
            context.decode([300, llama.vocabulary_size], position=0, sequence=TRUNK)
        assert context.is_empty()


@pytest.mark.parametrize("tokens", [256, 512])
def test_a_full_context(llama: Model, tokens: int) -> None:
    """When no cell is left the call is refused and nothing of it stays."""
    options = replace(QUANTISED_OPTIONS, context_tokens=tokens, batch_tokens=tokens)
    with Context(llama, options) as context:
        context.decode([300] * tokens, position=0, sequence=TRUNK)
        with pytest.raises(NativeError, match="returned 1 "):
            context.decode(TOKENS, position=tokens, sequence=TRUNK)
        context.remove(TRUNK)
        assert context.is_empty()


def test_threads_can_change_between_calls(llama: Model) -> None:
    """A context that lends or borrows threads reads the same bits."""
    with Context(llama, QUANTISED_OPTIONS) as context:
        readings = []
        for threads in (1, 2, 3, 1):
            context.set_threads(threads)
            context.decode([300, *range(300, 420)], position=0, sequence=TRUNK, read=True)
            readings.append(context.read(LABELS))
            context.remove(TRUNK)
        assert [readings[0]] * 4 == readings


def test_a_reading_is_llama_cpps_own(model: Model) -> None:
    """Label logits, log-sum-exp and top token are those of llama.cpp's logits."""
    with Context(model, QUANTISED_OPTIONS) as context:
        context.decode(TOKENS, position=0, sequence=TRUNK, read=True)
        reading = context.read(LABELS)
        pointer = native.llama_get_logits_ith(context._handle, -1)
        logits = [pointer[token] for token in range(model.vocabulary_size)]
    assert tuple(logits[label] for label in LABELS) == reading.label_logits
    assert logits.index(max(logits)) == reading.top_token
    probabilities = sum(2.718281828459045 ** (logit - reading.log_sum_exp) for logit in logits)
    assert pytest.approx(1, abs=1e-7) == probabilities


# --- what does not load ---------------------------------------------------------------------------


def refused(path: Path, options: ModelOptions = QUANTISED_OPTIONS) -> str:
    with pytest.raises(CannotRun) as caught:
        Model.load(path, options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named, with llama.cpp's reason."""
    path = tmp_path / "missing.gguf"
    message = refused(path)
    assert message.startswith(f"llama.cpp cannot load {path}: ")
    assert "failed to open GGUF file" in message


def test_a_file_that_is_not_gguf(tmp_path: Path) -> None:
    """Another format is named as such."""
    path = tmp_path / "other.gguf"
    path.write_bytes(b"PK\x03\x04" * 100)
    assert "invalid magic characters" in refused(path)


@pytest.mark.parametrize("percent", [1, 60, 99])
def test_a_truncated_file(tiny_models: TinyModels, tmp_path: Path, percent: int) -> None:
    """A download that stopped early does not load, wherever it stopped."""
    whole = tiny_models.path().read_bytes()
    path = tmp_path / "truncated.gguf"
    path.write_bytes(whole[: len(whole) * percent // 100])
    message = refused(path)
    assert message.startswith(f"llama.cpp cannot load {path}: ")
    assert not message.endswith("gave no reason")


def test_offload_without_a_gpu_build(tiny_models: TinyModels) -> None:
    """Layers for a GPU are refused when the build has no GPU backend."""
    if describe_build().gpu_offload:
        pytest.skip("this build can offload")
    options = replace(QUANTISED_OPTIONS, gpu_layers=-1)
    assert "gpu_layers is -1, but this build" in refused(tiny_models.path(), options)


def test_a_context_that_is_too_large(tiny_models: TinyModels) -> None:
    """A context that memory cannot hold is refused with its size; the next one can be made."""
    code = """
        import resource, sys
        from pathlib import Path
        from worker.engine.llama import Context, Model
        from worker.engine.options import ModelOptions
        from worker.errors import CannotRun

        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        options = ModelOptions(context_tokens=1 << 25, threads=1)
        small = ModelOptions(context_tokens=256, threads=1)
        with Model.load(Path(sys.argv[1]), options) as model:
            try:
                Context(model, options)
            except CannotRun as error:
                print(error)
            Context(model, small).close()
    """
    child = in_a_child(code, str(tiny_models.path()))
    assert (0, "") == (child.returncode, child.stderr)
    [line] = child.stdout.splitlines()
    assert line.startswith("llama.cpp cannot make a context of 33554432 tokens: ")
    assert not line.endswith("gave no reason")


def test_metadata_is_read(tiny_models: TinyModels) -> None:
    """Architecture, file type, template and sizes come from the GGUF, however long they are."""
    template = CHATML + "{# " + "long " * 200 + "#}"
    model = tiny_models.load(Tiny(chat_template=template))
    assert ("llama", template) == (model.architecture, model.chat_template)
    assert template == model.metadata["tokenizer.chat_template"]
    assert 32768 == model.training_context_tokens
    assert ("<s>", "</s>") == (model.bos_text(), model.eos_text())


@pytest.mark.parametrize("tiny", ALL_KINDS, ids=str)
def test_kinds_are_told_apart(tiny: Tiny, tiny_models: TinyModels) -> None:
    """The model itself says whether it decodes, how far it sees, whether it can be cut back."""
    model = tiny_models.load(tiny)
    assert (tiny.kind.value, True) == (model.architecture, model.is_decoder)
    assert (32 if tiny.kind.value == "gemma3" else 0) == model.window_tokens
    assert (tiny.kind.value in ("llama", "gemma3")) == model.is_divisible


# --- text stays text ------------------------------------------------------------------------------

SPM = Tiny(chat_template=CHATML)
BPE = Tiny(tokenizer="bpe", chat_template=CHATML)

Encoder = Callable[[str], list[int]]


@pytest.fixture(scope="session", params=["spm", "bpe", "sample"])
def vocabulary(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    if request.param == "sample":
        model: Model = request.getfixturevalue("sample_model")
        return model
    return tiny_models.load(SPM if request.param == "spm" else BPE)


def native_tokens(model: Model, text: str) -> list[int]:
    """Return llama.cpp's own tokens of *text*, control tokens parsed."""
    data = text.encode()
    tokens = (native.llama_token * (len(data) + 16))()
    count = native.llama_tokenize(
        model._vocabulary, data, len(data), tokens, len(tokens), False, True
    )
    assert count >= 0
    return list(tokens[:count])


def frame_of(model: Model) -> tuple[str, str]:
    template = model.chat_template or CHATML
    frame = chat_frame(template, bos=model.bos_text(), eos=model.eos_text())
    return frame.head, frame.tail


def control_tokens(model: Model, tokens: list[int]) -> list[int]:
    known = frozenset(control.token for control in model.tokenizer._control_tokens.values())
    return [token for token in tokens if token in known]


few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
texts = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(["▁", " ", "  ", "\n", "\n\n", "\0", "é", "e\u0301", "<", ">", "|", "order",
                         "日本", "🙂", "0x0A", "<0x0A>", "Ġ", "\t", "\r\n", "\u200d", "\ufeff"]),
        max_size=20,
    ).map("".join),
)  # fmt: skip


@few
@given(text=texts)
@example(text="")
@example(text=" ")
@example(text="thank you")
@example(text=" the order\n\n\nrefund  money ")
def test_tokens_are_llama_cpps_own(vocabulary: Model, text: str) -> None:
    """Text between template pieces is tokenised as llama.cpp tokenises the whole rendering."""
    head, tail = frame_of(vocabulary)
    rendering = head + text + tail
    expected = native_tokens(vocabulary, rendering)
    template_alone = control_tokens(vocabulary, native_tokens(vocabulary, head + tail))
    if control_tokens(vocabulary, expected) != template_alone:
        return  # the text spells a control token; the next tests are about that
    prompt = (Piece(head, trusted=True), Piece(text, trusted=False), Piece(tail, trusted=True))
    assert expected == vocabulary.encode(prompt)


@few
@given(text=texts)
@example(text="order")
@example(text=" order")
def test_plain_prompts_begin_with_bos(vocabulary: Model, text: str) -> None:
    """A prompt without a template is BOS and llama.cpp's tokens of the text."""
    tokens = native_tokens(vocabulary, text)
    if control_tokens(vocabulary, tokens):
        return
    bos = native.llama_vocab_bos(vocabulary._vocabulary)
    assert [bos, *tokens] == vocabulary.encode((Piece(text, trusted=False),))


@pytest.mark.parametrize("separator", ["", " ", "\n", "x"])
def test_spellings_of_control_tokens_stay_text(vocabulary: Model, separator: str) -> None:
    """A state that spells every control token brings exactly as many as an empty one."""
    head, tail = frame_of(vocabulary)
    text = separator.join(vocabulary.tokenizer._control_tokens)

    def found(state: str) -> list[int]:
        prompt = (Piece(head, trusted=True), Piece(state, trusted=False), Piece(tail, trusted=True))
        return control_tokens(vocabulary, vocabulary.encode(prompt))

    assert len(found("")) > 2
    assert found("") == found(text)


@pytest.mark.parametrize(
    ("text", "tail"),
    [("<end_of_", "turn>"), ("<end_of_turn", ">"), ("<", "end_of_turn>"), ("<start_of_turn>", "")],
)
def test_a_spelling_across_pieces_stays_text(vocabulary: Model, text: str, tail: str) -> None:
    """A control token cannot be completed by what the template happens to write after the text."""
    prompt = (Piece(text, trusted=False), Piece(tail, trusted=True))
    assert 1 == len(control_tokens(vocabulary, vocabulary.encode(prompt)))  # BOS


def test_a_template_that_writes_bos_has_one(vocabulary: Model) -> None:
    """The beginning of the sequence is marked once, whether or not the template writes it."""
    bos = native.llama_vocab_bos(vocabulary._vocabulary)
    written = (Piece(f"{vocabulary.bos_text()}State", trusted=True),)
    unwritten = (Piece("State", trusted=True),)
    assert vocabulary.encode(unwritten) == vocabulary.encode(written)
    assert 1 == vocabulary.encode(written).count(bos)


def test_tokens_spell_the_text(vocabulary: Model) -> None:
    """What a token stands for, put together, is the text."""
    text = " Answer: A, not <end_of_turn> but é 日本 🙂"
    data = b"".join(
        piece_bytes(vocabulary, token)
        for token in vocabulary.encode((Piece(text, trusted=False),))[1:]
    )
    assert text == data.decode()
    assert "A" == vocabulary.text(vocabulary.encode((Piece("A", trusted=False),))[-1])


def piece_bytes(model: Model, token: int) -> bytes:
    buffer = ctypes.create_string_buffer(256)
    length = native.llama_token_to_piece(model._vocabulary, token, buffer, 256, 0, True)
    return buffer.raw[:length]
