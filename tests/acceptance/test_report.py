"""The page of a run in a real browser."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.unit.quality.bench import draw_results
from tests.unit.quality.test_page import header_of, page_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
def test_the_page_opens_and_its_chooser_works(tmp_path: Path) -> None:
    """The browser draws every figure, and its script has filled in what is accepted."""
    options = ("billing", "tech", "none of these")
    page, summary = page_of(header_of(*options), draw_results(np.random.default_rng(1), 300))
    file = tmp_path / "report.html"
    file.write_text(page, "utf-8")
    picture = tmp_path / "report.png"
    opened = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,1600",
            f"--screenshot={picture}", "--dump-dom", file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )  # fmt: skip

    assert 0 == opened.returncode, opened.stderr
    assert 4 == opened.stdout.count("<svg")
    wrong = 1 - summary.questions["q"].values["accuracy"].value
    told = dict(re.findall(r'<output name="(\w+)">([^<]*)</output>', opened.stdout))
    assert {"threshold": "0.000", "coverage": "100.0 %", "risk": f"{100 * wrong:.1f} %"} == told
    assert picture.stat().st_size > 20_000
