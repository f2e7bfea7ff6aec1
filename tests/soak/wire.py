"""Calls to SQS and SNS as they go over the wire: JSON for one, forms and XML for the other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree as Xml

JSON_TYPE = "application/x-amz-json-1.0"
XML_TYPE = "text/xml"


@dataclass(frozen=True)
class Call:
    """One call: its operation, and its request as SQS's or SNS's fields."""

    operation: str
    is_json: bool
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, headers: Mapping[str, str], body: bytes) -> "Call":
        if target := headers.get("X-Amz-Target"):
            return cls(target.rpartition(".")[2], True, json.loads(body or b"{}"))
        form = parse_qs(body.decode())
        fields = {name: values[0] for name, values in form.items()}
        return cls(fields.get("Action", ""), False, fields)

    def messages(self) -> dict[str, str]:
        """Return the messages of a PublishBatch by entry id."""
        start, found = "PublishBatchRequestEntries.member.", {}
        for name, value in self.fields.items():
            if name.startswith(start) and name.endswith(".Id"):
                found[value] = self.fields[f"{name.removesuffix('.Id')}.Message"]
        return found

    def handles(self) -> dict[str, str]:
        """Return the receipt handles of a batch by entry id."""
        return {entry["Id"]: entry["ReceiptHandle"] for entry in self.fields["Entries"]}

    def accepted(self, answer: bytes) -> list[str]:
        """Return the entry ids that a batch's answer calls successful."""
        if self.is_json:
            return [entry["Id"] for entry in json.loads(answer).get("Successful", [])]
        return [found.text or "" for found in Xml.fromstring(answer).iterfind(_SUCCESSFUL_IDS)]

    def refusal(self, code: str, status: int) -> tuple[bytes, dict[str, str]]:
        """Word an error as the service does; return body and headers."""
        fault = "Sender" if status < 500 else "Receiver"
        if self.is_json:
            text = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "injected"})
            return text.encode(), {
                "Content-Type": JSON_TYPE,
                "x-amzn-query-error": f"{code};{fault}",
            }
        text = (
            f"<ErrorResponse><Error><Type>{fault}</Type><Code>{code}</Code>"
            "<Message>injected</Message></Error><RequestId>0</RequestId></ErrorResponse>"
        )
        return text.encode(), {"Content-Type": XML_TYPE}

    def with_failed(self, answer: bytes, ids: set[str]) -> bytes:
        """Return a batch's answer in which *ids* failed, by no fault of the sender."""
        if self.is_json:
            found = json.loads(answer)
            kept = [entry for entry in found.get("Successful", []) if entry["Id"] not in ids]
            failed = [
                {"Id": name, "SenderFault": False, "Code": "InternalError", "Message": "injected"}
                for name in sorted(ids)
            ]
            found["Successful"], found["Failed"] = kept, [*found.get("Failed", []), *failed]
            return json.dumps(found).encode()
        return _xml_with_failed(Xml.fromstring(answer), ids)


_SUCCESSFUL_IDS = ".//{*}Successful/{*}member/{*}Id"


def _xml_with_failed(root: Xml.Element, ids: set[str]) -> bytes:
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    successful = root.find(".//{*}Successful")
    failed = root.find(".//{*}Failed")
    result = root.find(".//{*}PublishBatchResult")
    assert successful is not None
    assert result is not None
    if failed is None:
        failed = Xml.SubElement(result, f"{space}Failed")
    for member in successful.findall("{*}member"):
        name = member.findtext("{*}Id")
        if name in ids:
            successful.remove(member)
            entry = Xml.SubElement(failed, f"{space}member")
            fields = {"Id": name, "Code": "InternalError", "Message": "injected"}
            for field, value in {**fields, "SenderFault": "false"}.items():
                Xml.SubElement(entry, f"{space}{field}").text = value
    return Xml.tostring(root)
