"""Sources: which documents they hold, what these are called, and what is skipped by name."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from worker.desk.sources import (
    Reading,
    Skipped,
    SourceDocument,
    check_sources,
    count_sources,
    read_sources,
    short_id,
)
from worker.errors import UsageError


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def documents(*paths: Path, **reading: Any) -> dict[str, Any]:
    """Return the states by ticket id; every document must be readable."""
    how = Reading(**reading)
    check_sources(paths, how)
    found = list(read_sources(paths, how))
    assert all(isinstance(one, SourceDocument) for one in found), found
    assert len(found) == count_sources(paths, how)
    return {one.ticket_id: one.state for one in found if isinstance(one, SourceDocument)}


def skipped(*paths: Path, **reading: Any) -> list[tuple[str, str]]:
    found = read_sources(paths, Reading(**reading))
    return [(one.name, one.reason) for one in found if isinstance(one, Skipped)]


def refusal(*paths: Path, **reading: Any) -> str:
    with pytest.raises(UsageError) as caught:
        check_sources(paths, Reading(**reading))
    return str(caught.value)


def test_a_folder_holds_a_document_in_each_file(tmp_path: Path) -> None:
    """By path, whatever the order on disk; folders in it too, hidden files and journals not."""
    write(tmp_path / "mail/b.txt", "second")
    write(tmp_path / "mail/a.txt", "first für")
    write(tmp_path / "mail/in/c.json", '{"b": 1, "a": 2}')
    write(tmp_path / "mail/packed.txt.gz", gzip.compress(b"packed", mtime=0))
    write(tmp_path / "mail/.hidden/x.txt", "no")
    write(tmp_path / "mail/.DS_Store", "no")
    write(tmp_path / "mail/a.txt.tickets.submitted.jsonl", "no")

    found = documents(tmp_path / "mail")
    assert [
        ("mail/a.txt", "first für"),
        ("mail/b.txt", "second"),
        ("mail/in/c.json", {"b": 1, "a": 2}),
        ("mail/packed.txt.gz", "packed"),
    ] == list(found.items())
    assert ["mail/a.txt", "mail/b.txt"] == list(documents(tmp_path / "mail", pattern="*.txt"))


def test_a_file_is_a_document(tmp_path: Path) -> None:
    """Its name is the ticket's id, wherever it is called from."""
    assert {"a.txt": "text"} == documents(write(tmp_path / "a.txt", "text"))


LINES = '{"id": 7, "body": "one"}\n\n{"id": "x", "body": {"k": "two"}}\n'


def test_each_line_is_a_document(tmp_path: Path) -> None:
    """Whole, or one field of it; named by its line, or by a field."""
    path = write(tmp_path / "mail.jsonl", LINES)

    assert {
        "mail.jsonl:1": {"id": 7, "body": "one"},
        "mail.jsonl:3": {"id": "x", "body": {"k": "two"}},
    } == (documents(path))
    assert {"7": "one", "x": {"k": "two"}} == documents(path, column="body", id_column="id")
    assert {"7": {"body": "one"}, "x": {"body": {"k": "two"}}} == documents(path, id_column="id")
    assert {"t.jsonl:1": "just text"} == documents(write(tmp_path / "t.jsonl", '"just text"'))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_each_row_is_a_document(tmp_path: Path, delimiter: str) -> None:
    """Quoted fields may hold line breaks; what parts the fields shows in the header."""
    rows = [["id", "body"], ["a", '"one, two;\tthree\nfour"'], ["b", "x"]]
    text = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    path = write(tmp_path / ("mail.tsv" if delimiter == "\t" else "mail.csv"), text)

    assert {"a": "one, two;\tthree\nfour", "b": "x"} == documents(path, id_column="id")
    assert ["a", "b"] == [row["id"] for row in documents(path).values()]
    assert [f"{path.name}:1", f"{path.name}:2"] == list(documents(path, column="body"))


def test_a_field_may_be_a_long_document(tmp_path: Path) -> None:
    """Python's csv stops at 128 KiB unless it is told otherwise."""
    path = write(tmp_path / "mail.csv", "body\n" + "x" * 200_000 + "\n")

    assert {"mail.csv:1": "x" * 200_000} == documents(path)


SECRET = "jane-doe"


@pytest.mark.parametrize(
    ("name", "content", "faults"),
    [
        ("a.txt", b"\xff" + SECRET.encode(), {"a.txt": "the document is not UTF-8 at byte 0"}),
        ("a.txt", " \n", {"a.txt": "is empty"}),
        ("a.json", "[]", {"a.json": "is empty"}),
        ("a.json", "1", {"a.json": "the document must be text, an object or an array"}),
        ("a.txt", "x" * 101, {"a.txt": "has more than 100 bytes (--max-document-bytes)"}),
        (
            "a.gz",
            gzip.compress(b"x" * 101, mtime=0),
            {"a.gz": "the document has more than 100 bytes"},
        ),
        (
            "a.jsonl",
            b'"good"\n{"' + SECRET.encode() + b'"\n"\xff"\n1\n""\n',
            {
                "a.jsonl:2": "not JSON: Expecting ':' delimiter at line 1 column 12",
                "a.jsonl:3": "not UTF-8 at byte 1",
                "a.jsonl:4": "must be text, an object or an array",
                "a.jsonl:5": "is empty",
            },
        ),
        (
            "a.csv",
            "x,y\n1,2\n1\n1,2,3\n",
            {
                "a.csv:2": "the row has 1 fields, the header 2 (line 3)",
                "a.csv:3": "the row has 3 fields, the header 2 (line 4)",
            },
        ),
        (
            "a.csv",
            'x,y\n"1\n1",2\n1\n1,"2\n3,4\n',
            {
                "a.csv:2": "the row has 1 fields, the header 2 (line 4)",
                "a.csv": "is not CSV from here on: unexpected end of data (line 5)",
            },
        ),
        ("a.csv", b"x,y\n1,2\n\xff,2\n", {"a.csv": "is not UTF-8 from here on"}),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: str | bytes, faults: dict[str, str]
) -> None:
    """By file, line or row and reason, never by its text; the rest is read."""
    found = dict(skipped(write(tmp_path / name, content), max_bytes=100))

    assert faults == found
    assert SECRET not in json.dumps(found)


def test_a_name_that_is_no_text_is_skipped(tmp_path: Path) -> None:
    """Nothing can be called by it; the files beside it are read."""
    folder = tmp_path / "mail"
    write(folder / "a.txt", "one")
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.txt"))
    write(odd, "two")

    assert ["mail/a.txt"] == [
        one.name for one in read_sources([folder], Reading()) if isinstance(one, SourceDocument)
    ]
    assert [("mail/b\\xff.txt", "its name is not UTF-8, which a ticket id must be")] == list(
        skipped(folder)
    )
    assert [("b\\xff.txt", "its name is not UTF-8, which a ticket id must be")] == list(
        skipped(odd)
    )


def test_a_table_that_breaks_off_is_counted_as_far_as_it_goes(tmp_path: Path) -> None:
    """For a progress bar; reading it says what is wrong."""
    path = write(tmp_path / "a.csv", 'x,y\n1,2\n3,"4\n')

    assert 1 == count_sources([path], Reading())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "a"}', "has no field body"),
        ('{"body": "x"}', "has no field id"),
        ('"text"', "has no field id"),
        ('{"id": "", "body": "x"}', "its id must be text of 1 to 128 characters"),
        ('{"id": true, "body": "x"}', "its id must be text of 1 to 128 characters"),
        ('{"id": 1.5, "body": "x"}', "its id must be text of 1 to 128 characters"),
        (json.dumps({"id": "x" * 129, "body": "x"}), "its id must be text of 1 to 128 characters"),
        ('{"id": "a", "body": null}', "must be text, an object or an array"),
        ('{"id": "a", "body": "  "}', "is empty"),
    ],
)
def test_a_line_without_its_fields_is_named(tmp_path: Path, line: str, reason: str) -> None:
    """A slip in one line costs that line."""
    path = write(tmp_path / "a.jsonl", line)

    assert [("a.jsonl:1", reason)] == skipped(path, column="body", id_column="id")


def test_an_id_is_used_once(tmp_path: Path) -> None:
    """Two outcomes of one id could not be told apart: the second document is skipped."""
    path = write(tmp_path / "a.csv", "id,body\n1,x\n1,y\n")

    assert [("a.csv:2", "its ticket id occurs twice")] == skipped(path, id_column="id")


def test_wrong_sources_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """What is wrong with a whole source shows at once, with what to do."""
    text = write(tmp_path / "a.txt", "x")
    table = write(tmp_path / "a.csv", "id,body\n1,x\n")
    twice = write(tmp_path / "b.csv", "id,id\n1,x\n")
    binary = write(tmp_path / "c.csv", b"\xff\n")
    twin = write(tmp_path / "in/a.txt", "x")

    assert "none does not exist" == refusal(Path("none"))
    assert refusal(text, column="body").endswith("--column and --id-column need JSONL or CSV")
    assert refusal(table, column="text").endswith("has no column text; it has id, body")
    assert refusal(table, id_column="key").endswith("has no column key; it has id, body")
    assert refusal(twice).endswith("two columns have the same name")
    assert refusal(binary).endswith("is no UTF-8 CSV")
    assert refusal(text, twin).startswith("two sources are called a.txt")


def test_a_long_name_is_cut_to_an_id() -> None:
    """128 characters, the end of the name, and two long names differ."""
    one, other = short_id("a" * 200 + "/x.txt"), short_id("b" * 200 + "/x.txt")

    assert 128 == len(one) == len(other)
    assert one != other
    assert one.endswith("a/x.txt")
    assert "short" == short_id("short")
