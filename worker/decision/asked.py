"""How one question is put to a model, and where its answer is read."""

from dataclasses import dataclass

from worker.decision.text import PromptText


@dataclass(frozen=True, slots=True)
class View:
    """One question, shown with its options in one order.

    Attributes:
        prompt: the full prompt.
        labels: the tokens that spell each label, in the order the labels are shown. Of several
            spellings the likeliest counts.
        order: the index of the option shown at each place; empty where no option has a label.
    """

    prompt: PromptText
    labels: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    @property
    def label_tokens(self) -> tuple[int, ...]:
        """Every token that is read, label by label."""
        return tuple(token for group in self.labels for token in group)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it is put to a model.

    Attributes:
        views: one for each option order; their distributions are averaged.
        temperature: the logits are divided by.
        rates: whether the labels are a rating from "certainly false" to "certainly true", whose
            mean is the probability of true.
    """

    views: tuple[View, ...]
    temperature: float = 1.0
    rates: bool = False


@dataclass(frozen=True, slots=True)
class Worded:
    """A ticket as it is put to a model.

    Attributes:
        probes: two fixed questions over the same state. The tokens that both begin with are the
            trunk.
        questions: in the ticket's order.
    """

    probes: tuple[PromptText, PromptText]
    questions: tuple[Asked, ...]
