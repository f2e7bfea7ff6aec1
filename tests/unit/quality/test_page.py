"""The page of a run: whole, self-contained, and true to the numbers."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.unit.quality.bench import draw_results, make_header, make_result
from worker.quality.bootstrap import Draw
from worker.quality.charts import confidence_histogram
from worker.quality.page import write_page
from worker.quality.run_file import AskedQuestion, Header, Result
from worker.quality.summary import Summary, summarize

FIGURES = 4


class Reader(HTMLParser):
    """Counts elements, and notes what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.fetched: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def header_of(*options: str) -> Header:
    return make_header(questions={"q": AskedQuestion(type="choice", options=options)})


def page_of(header: Header, results: list[Result]) -> tuple[str, Summary]:
    summary = summarize(header, results, Draw(resamples=20))
    return write_page(header, results, summary, 20), summary


@pytest.fixture(scope="module")
def drawn() -> tuple[str, Summary]:
    results = draw_results(np.random.default_rng(1), 300)
    return page_of(header_of("a", "b", "none of these"), results)


def test_it_fetches_nothing(drawn: tuple[str, Summary]) -> None:
    """No style, script, font or picture from elsewhere; it opens from a disk without a network."""
    page, _ = drawn
    reader = Reader()
    reader.feed(page)

    assert [] == reader.fetched
    assert not re.search(r"https?://|@import|url\(", page)


def test_each_question_has_its_pictures_and_its_numbers(drawn: tuple[str, Summary]) -> None:
    """Four figures, and the measures as the summary has them."""
    page, summary = drawn
    reader = Reader()
    reader.feed(page)

    assert FIGURES == reader.opened.count("figure") == reader.opened.count("svg")
    for name in ("accuracy", "brier", "ece", "aurc"):
        assert f"{summary.questions['q'].values[name].value:.3f}" in reader.text
    counts = re.findall(r'class="count"[^>]*>(\d+)<', page)
    assert 300 == sum(map(int, counts))


def test_the_chooser_knows_the_curve(drawn: tuple[str, Summary]) -> None:
    """Its last point accepts everything, at the run's own share of wrong answers."""
    page, summary = drawn
    match = re.search(r"data-curve='([^']*)'", page)
    assert match
    *_, last = json.loads(match[1].replace("&#34;", '"'))

    assert 1.0 == last[1]
    wrong = 1 - summary.questions["q"].values["accuracy"].value
    assert pytest.approx(wrong, abs=1e-4) == last[2]


def test_names_are_text() -> None:
    """An option or a question may be called anything."""
    odd = "<script>alert(1)</script>"
    header = make_header(questions={odd: AskedQuestion(type="choice", options=(odd, "b"))})
    results = [
        make_result(f"c{number}", {odd: (0.75, 0.25)}, {odd: number % 2}) for number in range(20)
    ]
    page, _ = page_of(header, results)

    assert odd not in page
    assert "&lt;script&gt;" in page


def test_answers_without_labels_have_no_pictures() -> None:
    """There is nothing to compare them with, and the page says so."""
    results = [make_result(f"c{number}", {"q": (0.75, 0.25)}, {}) for number in range(20)]
    page, _ = page_of(header_of("a", "b"), results)

    assert "<figure" not in page
    assert "None of its answers has a label." in page


def test_answers_are_counted_in_whole_numbers() -> None:
    """Half an answer on an axis would only puzzle."""
    drawn = confidence_histogram(np.full(147, 0.5), np.zeros(147, dtype=np.bool_))
    found = re.findall(r'class="tick"[^>]*text-anchor="end"[^>]*>([^<]+)<', drawn)
    ticks = [float(text) for text in found]

    assert ticks
    assert all(tick.is_integer() for tick in ticks)
