"""Forged decision models, and llama.cpp's own server as the judge of how they are read.

The templates are ours. They differ in what the types' real ones do: where the state stands, what is
serialised how, whether the template writes the labels, whether it shows the question's id.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import xllamacpp

from tests.models import Tiny
from tests.tiny_gguf import WORDS, Kind, MetadataValue
from worker.decision.native.wording import TEMPLATE_KEY

_TEXT: Final = """
{%- macro text(value) -%}
{{ value if value is string else value | tojson }}
{%- endmacro -%}
"""

_LETTERS: Final = """
{%- set letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' -%}
"""

STATE_FIRST: Final = (
    _TEXT
    + _LETTERS
    + """<s><start_of_turn>user
State:
{{ text(state) }}

Question: {{ text(instructions) }}
{% for option in options %}
[{{ letters[loop.index0] }}] {{ option.key }}
{%- if option.description is not none %}: {{ text(option.description) }}{% endif %}

{% endfor %}

Reply with the letter only.<end_of_turn>
<start_of_turn>model
"""
)

EVIDENCE: Final = (
    _TEXT
    + """<start_of_turn>system
You answer.<end_of_turn>
<start_of_turn>user
# Evidence
{{ text(state) }}

# Criterion
{{ text(instructions or id) }}

# Options
{% if type == 'noul' %}
A rating from A (no) to I (yes).
{% else %}
    {% for option in options %}
{{ option.label }}. {{ option.key }}: {{ text(option.description or option.key) }}
        {%- if type == 'score' %} (level {{ loop.index0 }} of {{ options | length - 1 }}){% endif %}

    {% endfor %}
{% endif %}
<end_of_turn>
<start_of_turn>model

"""
)

ALL_QUESTIONS: Final = """
{%- macro safe(value) -%}
{{ (value if value is string else value | tojson) | tojson | replace('<', '\\\\u003c') }}
{%- endmacro -%}
{%- set ns = namespace(many=false) %}{% for one in questions %}
{%- if one.options | length > 26 %}{% set ns.many = true %}{% endif %}{% endfor -%}
<s>{{ 'Long' if ns.many else 'Short' }} codes. {{ safe(state) }}
{% for one in questions %}
{{ safe(one.id) }} ({{ one.type }}): {{ safe(one.instructions) }}
{%- for o in one.options %} {{ o.label }}={{ safe(o.key) }}
    {%- if not loop.last %},{% endif %}{% endfor %}
{% endfor %}<end_of_turn>{{ id }} is
"""

OWN_CODES: Final = (
    _TEXT
    + """<s><start_of_turn>user
{{ state if state is string else state | tojson(indent=2) }}
Task: {{ text(instructions) }}
{% for option in options %}
    {%- if type == 'choice' %}
        {{- '\\n' ~ option.label }} {{ text(option.description) if option.description
            else option.key | replace('_', ' ') }}
    {%- elif type == 'noul' %}
        {{- '\\nAgree: ' if option.key == 'true' else '\\nDeny: ' }}
        {{- text(option.description) if option.description is not none else 'unsaid' }}
    {%- else %}
        {{- ' | ' if not loop.first }}{{ option.key }} {{ text(option.description) }}
    {%- endif %}
{% endfor %}
{{ '<end_of_turn>\\n<start_of_turn>model\\n' }}"""
)

STRESS: Final = """
{%- macro told(value, depth=0) %}
    {%- if value is string %}{{ value }}
    {%- elif value is mapping and depth < 2 %}
        {%- for key, item in value.items() %}
            {{- key ~ ': ' }}{{ told(item, depth + 1) }}; {% endfor %}
    {%- elif value is none %}nothing
    {%- else %}{{ value | tojson(separators=(',', ':')) }}
    {%- endif %}
{%- endmacro %}
<s>{{ type | upper }} {{ id }}
{{ told(state) }} | {{ state | tojson(indent=2) }} | {{ state }}
{{ 'Q: ' + told(instructions) }}
{%- set seen = namespace(count=0) %}
  {% for option in options %}
    {% set seen.count = seen.count + 1 %}
    {{ loop.index }}/{{ loop.length }} {{ option.label }} {{ option.key | trim }}
    {{- ' = ' ~ told(option.description) if option.description else '' }}
    {{ option | tojson(ensure_ascii=true) }}<end_of_turn>
  {% endfor %}
{{ seen.count }}{% if images %} with images{% endif %}<start_of_turn>
"""

DECIDERS: Final[Mapping[str, tuple[Kind, str, str]]] = {
    "openjev": (Kind.LLAMA, "spm", STATE_FIRST),
    "lev": (Kind.QWEN35, "bpe", EVIDENCE),
    "nimble": (Kind.GEMMA3, "spm", ALL_QUESTIONS),
    "pplx-decider": (Kind.LLAMA, "bpe", EVIDENCE),
    "lfm2-d1": (Kind.LFM2, "spm", OWN_CODES),
}
"""By decision type: the architecture that stands for it, the vocabulary, a template."""

TEMPERATURES: Final[Mapping[str, float]] = {
    "choice": 1.7,
    "choice.3_5": 0.9,
    "choice.small": 1.3,
    "choice.large": 2.1,
    "score": 2.8,
    "score.6_10": 1.2,
    "noul": 2.333,
}


def decider(kind: str, template: str | None = None, **metadata: MetadataValue) -> Tiny:
    """Return a forged decision model of a type; *metadata* by what follows ``decision.``."""
    architecture, tokenizer, own_template = DECIDERS.get(kind, DECIDERS["openjev"])
    prefix = f"{architecture.value}.decision."
    values: dict[str, MetadataValue] = {
        f"{prefix}type": kind,
        "tokenizer.chat_templates": ("systemone",),
        TEMPLATE_KEY: template or own_template,
    }
    temperatures = {f"temperature.{name}": value for name, value in TEMPERATURES.items()}
    values |= {prefix + name: value for name, value in (temperatures | metadata).items()}
    return Tiny(architecture, tokenizer=tokenizer, metadata=tuple(values.items()))


class NativeServer:
    """llama.cpp's own server in this process, with one slot and nothing rounded.

    Args:
        path: a decision model.
    """

    def __init__(self, path: Path) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = 8192
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = 1
        parameters.warmup = False
        parameters.verbosity = 0
        parameters.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
        parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        off = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.flash_attn_type = off
        self._server: Any = xllamacpp.Server(parameters)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server = None  # what it holds is freed with it

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a System One request; a refusal has an ``error``."""
        answer: dict[str, Any] = self._server.handle_systemone(dict(request))
        return answer


_ODD_TEXTS: Final = (
    "",
    " ",
    "  two  spaces ",
    "line\nfeed\r\nreturn\ttab",
    "Grüße, 漢字, עברית, 😀 \u2028\ufeff",
    "e\u0301 \x01\x1f\x7f",
    'quoted "text" \\ back\\slash',
    "{{ state }} {% if x %} {# no #}",
    "<b>&amp;</b> <think> [A] A. 1",
    "<|im_start|>",
    '{"a": 1}',
)
_ODD_NUMBERS: Final = (
    0,
    -1,
    7,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    0.1 + 0.2,
    1.0,
    -0.0,
    1234567.5,
    1e-7,
    1e300,
)


class Requests:
    """Generated System One requests, the same for the same seed; none spells a control token.

    Args:
        seed: of everything.
        most_options: of a choice.
    """

    def __init__(self, seed: object, most_options: int = 52) -> None:
        self._draw = random.Random(f"{seed}")
        self._most_options = most_options

    def one(self) -> dict[str, Any]:
        """Return the next request."""
        count = self._draw.choice((1, 1, 2, 3))
        keys = [self._draw.choice((f"q{n}", f"Question {n}?", f"é{n}")) for n in range(count)]
        return {"state": self._text(12), "questions": {key: self._question() for key in keys}}

    def _question(self) -> dict[str, Any]:
        kind = self._draw.choice(("choice", "choice", "score", "noul"))
        question: dict[str, Any] = {"type": kind, "instructions": self._text(5) or "Which?"}
        if kind == "choice":
            question["criteria"] = self.options()
        elif kind == "score":
            levels = self._draw.randint(2, 10)
            question["criteria"] = [self._text(3) for _ in range(levels)]
        elif self._draw.random() < 0.7:
            sides = self._draw.choice((("true",), ("false",), ("false", "true"), ("true", "false")))
            question["criteria"] = {side: self._description() for side in sides}
        return question

    def options(self) -> dict[str, Any]:
        """Return the next options of a choice."""
        counts = (1, 2, 3, 4, 8, 11, 26, 27, 52)
        count = self._draw.choice([count for count in counts if count <= self._most_options])
        if count <= 26 and self._draw.random() < 0.2:
            return dict.fromkeys(self._draw.sample("ABCDEFGHIJKLMNOPqrstuvwxyz", count))
        join = self._draw.choice(" _")
        keys = [f"{join.join(self._words(2).split())}{n}" for n in range(count)]
        if self._draw.random() < 0.3:
            keys[-1] = self._draw.choice([text for text in _ODD_TEXTS if text.strip()])
        return {key: self._description() for key in keys}

    def _description(self) -> Any:
        return None if self._draw.random() < 0.4 else self._text(3)

    def _text(self, words: int, depth: int = 0) -> Any:
        """Return text, or structured data."""
        form = self._draw.random()
        if form < 0.5:
            return self._words(self._draw.randint(1, words))
        if form < 0.7:
            return self._draw.choice(_ODD_TEXTS)
        if form < 0.85:
            return [self._value(words, depth) for _ in range(self._draw.randint(0, 3))]
        keys = self._draw.sample(("b", "a", "ä", "Z", "10", "2", "note", "state"), 3)
        return {key: self._value(words, depth) for key in keys}

    def _value(self, words: int, depth: int) -> Any:
        form = self._draw.random()
        if form < 0.3:
            return self._draw.choice(_ODD_NUMBERS)
        if form < 0.4:
            return self._draw.choice((None, True, False))
        return self._text(words, depth + 1) if depth < 3 else self._words(1)

    def _words(self, count: int) -> str:
        return " ".join(self._draw.choices(WORDS, k=count))
