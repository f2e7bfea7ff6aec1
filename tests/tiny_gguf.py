"""Tiny seeded random GGUF models, one per kind of llama.cpp memory, with a vocabulary of their own.

The weights are noise, so the answers mean nothing. But the same arguments give the same bytes,
another prompt gives clearly other logits, and llama.cpp treats the file as it treats any model of
that architecture: enough to test exactness, forking, parking and the reading of labels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import ascii_letters, ascii_uppercase, digits, punctuation
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from gguf import (
    GGML_QUANT_SIZES,
    GGMLQuantizationType,
    GGUFWriter,
    LlamaFileType,
    TokenType,
    quants,
)

TokenizerName: TypeAlias = Literal["spm", "bpe"]
MetadataValue: TypeAlias = str | bool | int | float | Sequence[str]
Array: TypeAlias = npt.NDArray[np.float32]


class Kind(StrEnum):
    """An architecture, by the name llama.cpp knows it under; each stands for one kind of memory."""

    LLAMA = "llama"  # one KV cache, every layer sees every position
    GEMMA3 = "gemma3"  # every second layer sees only the sliding window
    LFM2 = "lfm2"  # hybrid: short convolutions, every second layer attention
    QWEN35 = "qwen35"  # hybrid: gated delta net, every second layer attention
    MAMBA2 = "mamba2"  # recurrent: no KV cache at all


EMBEDDING: Final = 64
HEADS: Final = 4
KV_HEADS: Final = 2
HEAD_DIM: Final = 32
FEED_FORWARD: Final = 128
ROPE_BASE: Final = 10_000.0
NORM_EPSILON: Final = 1e-6
PATTERN: Final = 2  # of every two layers the second is the full-attention one

# Wider than 1/sqrt(fan in), so that attention picks positions out instead of averaging over all.
SHARP: Final = 0.4
# Normed output times 0.3 over 64 dimensions: logits with a standard deviation near 2.4.
EMBEDDING_SCALE: Final = 0.3


def write_tiny_gguf(
    path: Path,
    kind: Kind = Kind.LLAMA,
    *,
    seed: int = 7,
    layers: int = 4,
    context_length: int = 32768,
    sliding_window: int = 32,
    chat_template: str | None = None,
    weight_type: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: Mapping[str, MetadataValue] | None = None,
    tokenizer: TokenizerName = "spm",
) -> Path:
    """Write a random model of a kind to `path` and return the path.

    `sliding_window` (tokens) is only for gemma3. `weight_type` is for the matrices whose rows fill
    whole blocks; norms, biases and convolutions stay F32. `metadata` (whole keys) comes last and
    replaces what is there.
    """
    if layers < PATTERN and kind in (Kind.GEMMA3, Kind.LFM2, Kind.QWEN35):
        raise ValueError(f"{kind} needs {PATTERN} layers to have one of each sort, not {layers}")
    vocabulary = VOCABULARIES[tokenizer]()
    writer = GGUFWriter(path, arch=kind.value)
    writer.add_name(f"tiny-{kind.value}")
    writer.add_file_type(FILE_TYPES.get(weight_type, LlamaFileType.GUESSED))
    writer.add_context_length(context_length)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    vocabulary.add_to(writer)

    weights = Weights(writer, np.random.default_rng(seed), weight_type)
    weights.matrix("token_embd", EMBEDDING, len(vocabulary.tokens), EMBEDDING_SCALE)
    if kind is Kind.GEMMA3:
        writer.add_sliding_window(sliding_window)
        writer.add_sliding_window_pattern(PATTERN)
    ARCHITECTURES[kind](weights, layers)

    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for key, value in (metadata or {}).items():
        _add_metadata(writer, key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


FILE_TYPES: Final = {
    GGMLQuantizationType.F32: LlamaFileType.ALL_F32,
    GGMLQuantizationType.F16: LlamaFileType.MOSTLY_F16,
    GGMLQuantizationType.Q8_0: LlamaFileType.MOSTLY_Q8_0,
}


def _add_metadata(writer: GGUFWriter, key: str, value: MetadataValue) -> None:
    """Add one key, its GGUF type taken from the Python type (int: uint32, float: float32)."""
    for values in writer.kv_data:
        values.pop(key, None)
    match value:
        case bool():
            writer.add_bool(key, value)
        case str():
            writer.add_string(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case _:
            writer.add_array(key, list(value))


# --- vocabulary -----------------------------------------------------------------------------------

SPECIAL_TOKENS: Final = {
    "<unk>": TokenType.UNKNOWN,
    "<s>": TokenType.CONTROL,
    "</s>": TokenType.CONTROL,
    "<start_of_turn>": TokenType.CONTROL,
    "<end_of_turn>": TokenType.CONTROL,
    "<pad>": TokenType.CONTROL,
}

# The 351 two-letter codes that are single tokens: AA to AZ, BB to BZ, CC to CZ, ... ZZ. The others
# (BA, CA, CB, ...) are two tokens; real vocabularies have such gaps too.
CODES: Final = tuple(a + b for a in ascii_uppercase for b in ascii_uppercase if a <= b)

_FREQUENT: Final = """
    Answer Question Option State Instructions Criteria Reply You The system user model
    answer question option state ticket order refund money back invoice payment please thank hello
    support customer team urgent angry calm broken wants writer bike rental account password
    yes no true false none the and that this with for not was have your you are can of to in is it
    on my at we be as or but all from will has when what which only text letter
    der die das und nicht ich les des est pas pour que los por una con non per
"""
WORDS: Final = tuple(_FREQUENT.split())


def merged_pieces(space: str) -> list[str]:
    """List the tokens of several characters, the ones to merge first at the front.

    Every prefix of a word is a piece, so a word is reached in whatever order its parts merge: the
    first part is always a prefix, and joined with the next part it is a prefix again. The pieces
    with a space come last, so a space joins a word that is already complete.
    """
    prefixes = (word[:length] for word in WORDS for length in range(2, len(word) + 1))
    bare = [*sorted(prefixes, key=len), *CODES]
    spaced = [space + piece for piece in (*WORDS, *CODES, *ascii_letters, *digits)]
    return list(dict.fromkeys([*bare, *spaced]))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens, and what llama.cpp's tokenizer of that model needs to know about them."""

    model: str  # "llama": SentencePiece style, merges by score; "gpt2": byte level, merges by rank
    pre_tokenizer: str
    tokens: list[str]
    types: list[TokenType]
    scores: list[float] | None = None
    merges: list[str] | None = None

    def add_to(self, writer: GGUFWriter) -> None:
        """Add the tokenizer's keys to a GGUF."""
        writer.add_vocab_size(len(self.tokens))
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre_tokenizer)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.scores is not None:
            writer.add_token_scores(self.scores)
        if self.merges is not None:
            writer.add_token_merges(self.merges)
        writer.add_unk_token_id(self.tokens.index("<unk>"))
        writer.add_bos_token_id(self.tokens.index("<s>"))
        writer.add_eos_token_id(self.tokens.index("</s>"))
        writer.add_eot_token_id(self.tokens.index("<end_of_turn>"))
        writer.add_pad_token_id(self.tokens.index("<pad>"))
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)


def spm_vocabulary() -> Vocabulary:
    """Build the SentencePiece style vocabulary: bytes, characters, pieces; a space is spelled ▁.

    No piece of several characters contains "<" or ">", so text can never merge into the spelling of
    a control token or of a byte token.
    """
    space = "▁"
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [*merged_pieces(space), space, *ascii_letters, *digits, *punctuation]
    special = list(SPECIAL_TOKENS)
    return Vocabulary(
        model="llama",
        pre_tokenizer="default",
        tokens=[*special, *byte_tokens, *pieces],
        types=[
            *SPECIAL_TOKENS.values(),
            *[TokenType.BYTE] * len(byte_tokens),
            *[TokenType.NORMAL] * len(pieces),
        ],
        scores=[0.0] * (len(special) + len(byte_tokens)) + [-float(i) for i in range(len(pieces))],
    )


def bpe_vocabulary() -> Vocabulary:
    """Build the byte-level vocabulary of the same pieces; a space is spelled Ġ."""
    pieces = merged_pieces("Ġ")
    single = _byte_characters()
    known = {*single, *pieces}
    # Any split of a piece into two tokens is a merge, so ranks work as the scores above do.
    splits = ((piece[:i], piece[i:]) for piece in pieces for i in range(1, len(piece)))
    tokens = [*SPECIAL_TOKENS, *single, *pieces]
    return Vocabulary(
        model="gpt2",
        pre_tokenizer="gpt-2",
        tokens=tokens,
        types=[
            *SPECIAL_TOKENS.values(),
            *[TokenType.NORMAL] * (len(tokens) - len(SPECIAL_TOKENS)),
        ],
        merges=[f"{left} {right}" for left, right in splits if {left, right} <= known],
    )


def _byte_characters() -> list[str]:
    """Spell each of the 256 bytes as GPT-2 does: itself where printable, else from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    unprintable = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(0x100 + unprintable.index(byte))
        for byte in range(256)
    ]


VOCABULARIES: Final[Mapping[TokenizerName, Callable[[], Vocabulary]]] = {
    "spm": spm_vocabulary,
    "bpe": bpe_vocabulary,
}


# --- tensors --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weights:
    """Random tensors, drawn one after the other and added to the file at once."""

    writer: GGUFWriter
    rng: np.random.Generator
    matrix_type: GGMLQuantizationType

    def matrix(self, name: str, inputs: int, outputs: int, scale: float | None = None) -> None:
        """Add an (outputs, inputs) matrix of that standard deviation, 1/sqrt(inputs) by default."""
        data = self._normal((outputs, inputs), inputs**-0.5 if scale is None else scale)
        block_size, _ = GGML_QUANT_SIZES[self.matrix_type]
        fits = inputs % block_size == 0
        dtype = self.matrix_type if fits else GGMLQuantizationType.F32
        self.writer.add_tensor(f"{name}.weight", quants.quantize(data, dtype), raw_dtype=dtype)

    def norm(self, name: str, *shape: int) -> None:
        """Add a norm's weights, spread a little around one."""
        self.writer.add_tensor(f"{name}.weight", 1 + self._normal(shape, 0.1))

    def kernel(self, name: str, width: int, channels: int, scale: float) -> None:
        """Add a (channels, width) convolution kernel."""
        self.writer.add_tensor(f"{name}.weight", self._normal((channels, width), scale))

    def bias(self, name: str, length: int, scale: float) -> None:
        """Add a bias."""
        self.writer.add_tensor(f"{name}.bias", self._normal((length,), scale))

    def decay(self, name: str, *shape: int) -> None:
        """Add the negative decay rates of a state space layer, from slow to fast."""
        rates = -np.exp(self.rng.uniform(-2.0, 1.0, shape))
        self.writer.add_tensor(name, rates.astype(np.float32))

    def _normal(self, shape: tuple[int, ...], scale: float) -> Array:
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)


def _add_attention_keys(writer: GGUFWriter, rope_dimensions: int = HEAD_DIM) -> None:
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_rope_dimension_count(rope_dimensions)


def _attention(weights: Weights, block: str, head_dim: int, *, gated: bool = False) -> None:
    """Add grouped attention; a gated one has its gate beside the query."""
    queries = HEADS * head_dim
    weights.matrix(f"{block}.attn_q", EMBEDDING, queries * (2 if gated else 1), SHARP)
    weights.matrix(f"{block}.attn_k", EMBEDDING, KV_HEADS * head_dim, SHARP)
    weights.matrix(f"{block}.attn_v", EMBEDDING, KV_HEADS * head_dim)
    weights.matrix(f"{block}.attn_output", queries, EMBEDDING)


def _query_key_norms(weights: Weights, block: str, head_dim: int) -> None:
    weights.norm(f"{block}.attn_q_norm", head_dim)
    weights.norm(f"{block}.attn_k_norm", head_dim)


def _feed_forward(weights: Weights, block: str) -> None:
    weights.matrix(f"{block}.ffn_gate", EMBEDDING, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_up", EMBEDDING, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_down", FEED_FORWARD, EMBEDDING)


def _is_full_attention(layer: int) -> bool:
    return layer % PATTERN == PATTERN - 1


def _llama(weights: Weights, layers: int) -> None:
    _add_attention_keys(weights.writer)
    weights.norm("output_norm", EMBEDDING)
    for block in (f"blk.{layer}" for layer in range(layers)):
        weights.norm(f"{block}.attn_norm", EMBEDDING)
        _attention(weights, block, HEAD_DIM)
        weights.norm(f"{block}.ffn_norm", EMBEDDING)
        _feed_forward(weights, block)


def _gemma3(weights: Weights, layers: int) -> None:
    _llama(weights, layers)
    for block in (f"blk.{layer}" for layer in range(layers)):
        weights.norm(f"{block}.post_attention_norm", EMBEDDING)
        weights.norm(f"{block}.post_ffw_norm", EMBEDDING)
        _query_key_norms(weights, block, HEAD_DIM)


def _lfm2(weights: Weights, layers: int) -> None:
    head_dim, width = EMBEDDING // HEADS, 3
    writer = weights.writer
    writer.add_head_count(HEADS)
    # A layer without KV heads is a convolution.
    writer.add_head_count_kv([KV_HEADS * _is_full_attention(layer) for layer in range(layers)])
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_shortconv_l_cache(width)
    weights.norm("token_embd_norm", EMBEDDING)
    for layer in range(layers):
        block = f"blk.{layer}"
        weights.norm(f"{block}.attn_norm", EMBEDDING)
        weights.norm(f"{block}.ffn_norm", EMBEDDING)
        _feed_forward(weights, block)
        if _is_full_attention(layer):
            _query_key_norms(weights, block, head_dim)
            _attention(weights, block, head_dim)
        else:
            weights.kernel(f"{block}.shortconv.conv", width, EMBEDDING, scale=0.7)
            weights.matrix(f"{block}.shortconv.in_proj", EMBEDDING, 3 * EMBEDDING)
            weights.matrix(f"{block}.shortconv.out_proj", EMBEDDING, EMBEDDING)


@dataclass(frozen=True, slots=True)
class StateSpace:
    """The sizes of a recurrent layer."""

    inner: int
    state: int
    groups: int
    heads: int
    kernel: int

    def add_to(self, writer: GGUFWriter) -> None:
        """Add the sizes' keys to a GGUF."""
        writer.add_ssm_conv_kernel(self.kernel)
        writer.add_ssm_inner_size(self.inner)
        writer.add_ssm_state_size(self.state)
        writer.add_ssm_time_step_rank(self.heads)
        writer.add_ssm_group_count(self.groups)


def _qwen35(weights: Weights, layers: int) -> None:
    ssm = StateSpace(inner=128, state=32, groups=2, heads=4, kernel=4)
    channels = 2 * ssm.state * ssm.groups + ssm.inner
    writer = weights.writer
    _add_attention_keys(writer, rope_dimensions=16)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_full_attention_interval(PATTERN)
    ssm.add_to(writer)
    weights.norm("output_norm", EMBEDDING)
    for layer in range(layers):
        block = f"blk.{layer}"
        weights.norm(f"{block}.attn_norm", EMBEDDING)
        weights.norm(f"{block}.post_attention_norm", EMBEDDING)
        _feed_forward(weights, block)
        if _is_full_attention(layer):
            _query_key_norms(weights, block, HEAD_DIM)
            _attention(weights, block, HEAD_DIM, gated=True)
        else:
            weights.matrix(f"{block}.attn_qkv", EMBEDDING, channels)
            weights.matrix(f"{block}.attn_gate", EMBEDDING, ssm.inner)
            weights.kernel(f"{block}.ssm_conv1d", ssm.kernel, channels, scale=0.6)
            weights.bias(f"{block}.ssm_dt", ssm.heads, scale=0.5)
            weights.decay(f"{block}.ssm_a", ssm.heads)
            weights.matrix(f"{block}.ssm_beta", EMBEDDING, ssm.heads)
            weights.matrix(f"{block}.ssm_alpha", EMBEDDING, ssm.heads)
            weights.norm(f"{block}.ssm_norm", ssm.state)
            weights.matrix(f"{block}.ssm_out", ssm.inner, EMBEDDING)


def _mamba2(weights: Weights, layers: int) -> None:
    ssm = StateSpace(inner=128, state=16, groups=1, heads=4, kernel=4)
    channels = ssm.inner + 2 * ssm.groups * ssm.state
    writer = weights.writer
    writer.add_head_count(0)
    writer.add_feed_forward_length(0)
    ssm.add_to(writer)
    weights.norm("output_norm", EMBEDDING)
    for block in (f"blk.{layer}" for layer in range(layers)):
        weights.norm(f"{block}.attn_norm", EMBEDDING)
        weights.matrix(f"{block}.ssm_in", EMBEDDING, ssm.inner + channels + ssm.heads)
        weights.kernel(f"{block}.ssm_conv1d", ssm.kernel, channels, scale=0.6)
        weights.bias(f"{block}.ssm_conv1d", channels, scale=0.1)
        weights.bias(f"{block}.ssm_dt", ssm.heads, scale=0.5)
        weights.decay(f"{block}.ssm_a", ssm.heads, 1)
        writer.add_tensor(f"{block}.ssm_d", np.ones((ssm.heads, 1), np.float32))
        weights.norm(f"{block}.ssm_norm", ssm.groups, ssm.inner // ssm.groups)
        weights.matrix(f"{block}.ssm_out", ssm.inner, EMBEDDING)


ARCHITECTURES: Final[Mapping[Kind, Callable[[Weights, int], None]]] = {
    Kind.LLAMA: _llama,
    Kind.GEMMA3: _gemma3,
    Kind.LFM2: _lfm2,
    Kind.QWEN35: _qwen35,
    Kind.MAMBA2: _mamba2,
}
