"""Writes the labelled items that the package sys1bench brings along as files of ours.

For each domain a question set, and the cases with their right answers:

    pip download --no-deps sys1bench && unzip sys1bench-*.whl 'sys1bench/data/*'
    python tools/sys1bench_cases.py sys1bench/data/canary/canary.jsonl build/sys1bench
    decision-worker evaluate --model sample --cases build/sys1bench/support_triage.jsonl \
        --question-set build/sys1bench/support_triage.yaml --report triage.html

Nothing of them is kept in this project: they have a licence and a version of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml


def question(item: dict[str, Any]) -> dict[str, Any]:
    """Returns one question as question sets have it."""
    found = {"type": item["type"], "instructions": item["instructions"]}
    if item["type"] == "choice":
        found["criteria"] = {one["key"]: one["description"] for one in item["criteria"]}
    elif item["type"] == "score":
        levels = sorted(item["criteria"], key=lambda one: one["level"])
        found["criteria"] = [one["description"] for one in levels]
    elif item["criteria"]:
        found["criteria"] = item["criteria"]
    return found


def domains(lines: list[str]) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Returns the questions and the cases of each domain.

    Raises:
        ValueError: two items of a domain ask the same question in other words.
    """
    questions: dict[str, dict[str, Any]] = defaultdict(dict)
    cases: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        item = json.loads(line)
        domain = item["domain"]
        for key, asked in item["questions"].items():
            if questions[domain].setdefault(key, question(asked)) != question(asked):
                raise ValueError(f"{item['task_id']}: {key} is worded in several ways")
        answers = {key: asked["ground_truth"] for key, asked in item["questions"].items()}
        cases[domain].append({"id": item["task_id"], "state": item["state"], "answers": answers})
    return {domain: (questions[domain], cases[domain]) for domain in cases}


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", type=Path, help="sys1bench's canary.jsonl")
    parser.add_argument("folder", type=Path, help="for the files")
    arguments = parser.parse_args()
    try:
        found = domains(arguments.items.read_text("utf-8").splitlines())
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {arguments.items}: {error}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for domain, (questions, cases) in found.items():
        tree = {"name": domain, "version": 1, "questions": questions}
        path = arguments.folder / f"{domain}.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), "utf-8")
        lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases]
        path.with_suffix(".jsonl").write_text("".join(lines), "utf-8")
        print(f"{path}  {len(questions)} questions, {len(cases)} cases")


if __name__ == "__main__":
    main()
