"""Native wordings over a made-up vocabulary."""

from string import ascii_letters, ascii_uppercase

from worker.decision.control import ControlTokens
from worker.decision.native.wording import TEMPLATE_KEY, NativeWording, open_wording
from worker.decision.text import PromptText

GIVEN = "{{ {'id': id, 'type': type, 'ask': instructions, 'options': options} | tojson }}"
STATE = "<s>{{ state | tojson }}<|end|>"
CODES = [*ascii_letters, *(a + b for a in ascii_uppercase for b in ascii_uppercase)]
SINGLE = [*CODES, "yes", "no", *map(str, range(10))]


class FakeVocabulary:
    """Letters, pairs of letters, digits, yes and no are single tokens."""

    def encode(self, prompt: PromptText) -> list[int]:
        text = "".join(piece.text for piece in prompt)
        return [SINGLE.index(text)] if text in SINGLE else [-1, -1]


def make_native(
    kind: str = "openjev", template: str = STATE + GIVEN, **metadata: str
) -> NativeWording:
    values = {"tiny.decision.type": kind, TEMPLATE_KEY: template}
    values |= {f"tiny.decision.{name}": text for name, text in metadata.items()}
    return open_wording("tiny", values, FakeVocabulary(), ControlTokens(["<s>", "<|end|>"]))
