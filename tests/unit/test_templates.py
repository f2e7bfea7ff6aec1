"""The templates of `infra/` keep our rules, and each rule finds the fault it is about."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.template_rules import RULES, Template, faults, read_template
from worker.settings import Settings

INFRA = Path(__file__).parents[2] / "infra"
TEMPLATES = sorted(INFRA.glob("*.yaml"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_keep_the_rules(path: Path) -> None:
    """Least privilege, encryption, limits of SQS, pinned images: held, not hoped for."""
    assert [] == faults(read_template(path))


def properties(template: Template, name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


def task_statement(template: Template) -> dict[str, Any]:
    policy = properties(template, "TaskRole")["Policies"][0]["PolicyDocument"]
    found: dict[str, Any] = policy["Statement"][0]
    return found


def topic_statement(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = properties(template, "OutcomeQueuePolicy")["PolicyDocument"][
        "Statement"
    ][0]
    return found


def container(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = properties(template, "Task")["ContainerDefinitions"][1]
    return found


PLANTED: dict[str, tuple[str, Callable[[Template], Any]]] = {
    "policies_name_their_resources": (
        "worker-ecs", lambda t: task_statement(t).update(Resource="*")),
    "policies_name_their_actions": (
        "worker-ecs", lambda t: task_statement(t).update(Action="sqs:*")),
    "nobody_else_is_let_in": (
        "messaging", lambda t: topic_statement(t).update(Principal="*")),
    "services_act_for_this_account_only": (
        "messaging", lambda t: topic_statement(t).pop("Condition")),
    "queues_and_topics_are_encrypted": (
        "messaging", lambda t: properties(t, "TicketQueue").pop("KmsMasterKeyId")),
    "queues_take_tls_only": (
        "messaging", lambda t: t["Resources"].pop("TicketQueuePolicy")),
    "visibility_is_within_limits": (
        "messaging", lambda t: properties(t, "TicketQueue").update(VisibilityTimeout=50_000)),
    "dead_letters_outlive_their_source": (
        "messaging",
        lambda t: properties(t, "TicketDeadLetters").update(MessageRetentionPeriod=345_600)),
    "subscriptions_have_dead_letters": (
        "messaging", lambda t: properties(t, "ReviewSubscription").pop("RedrivePolicy")),
    "images_are_pinned_by_digest": (
        "worker-ecs", lambda t: t["Parameters"]["ImageUri"].update(AllowedPattern=".+")),
    "parameters_are_described_and_bounded": (
        "messaging", lambda t: t["Parameters"]["DocumentDays"].pop("MinValue")),
    "containers_can_change_nothing": (
        "worker-ecs", lambda t: container(t).update(ReadonlyRootFilesystem=False)),
    "a_drain_fits_the_stop_timeout": (
        "worker-ecs", lambda t: container(t).update(StopTimeout=30)),
}  # fmt: skip


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES])
def test_each_rule_finds_its_fault(rule: str) -> None:
    """A rule that finds nothing would let everything through."""
    name, plant = PLANTED[rule]
    template = read_template(INFRA / f"{name}.yaml")

    plant(template)

    assert [rule] == [fault.split(":")[0] for fault in faults(template)]


def test_imports_are_exported() -> None:
    """A template that imports what no other exports cannot be deployed."""
    messaging = read_template(INFRA / "messaging.yaml")
    exported = {output["Export"]["Name"]["Fn::Sub"] for output in messaging["Outputs"].values()}

    for path in TEMPLATES:
        missing = imports(read_template(path)) - exported
        assert set() == missing, path.name


def imports(tree: Any) -> set[str]:
    if isinstance(tree, dict):
        own = {tree["Fn::ImportValue"]["Fn::Sub"]} if "Fn::ImportValue" in tree else set()
        return own.union(*map(imports, tree.values()))
    return set().union(*map(imports, tree)) if isinstance(tree, list) else set()


def test_pods_get_no_variables_of_services() -> None:
    """A Service called worker would else set what are settings here, and the start would fail."""
    documents = list(yaml.safe_load_all((INFRA / "kubernetes" / "worker.yaml").read_text()))
    pod = {one["kind"]: one for one in documents}["Deployment"]["spec"]["template"]["spec"]
    worker = pod["containers"][0]
    set_to = {one["name"]: one["value"] for one in worker["env"]}

    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert worker["securityContext"]["readOnlyRootFilesystem"] is True
    assert float(set_to["WORKER_STOP_WINDOW_SECONDS"]) < pod["terminationGracePeriodSeconds"]
    assert_settings(set_to)


def test_tasks_are_told_settings_only() -> None:
    """A variable that is no setting would end the start."""
    template = read_template(INFRA / "worker-ecs.yaml")
    set_to = {one["Name"]: one["Value"] for one in container(template)["Environment"]}

    assert_settings(set_to)


def test_endpoints_are_told_settings_only() -> None:
    """Asynchronous requests have more time than the sixty seconds of those who wait."""
    model = properties(read_template(INFRA / "endpoint-sagemaker.yaml"), "Model")
    set_to = model["PrimaryContainer"]["Environment"]

    assert_settings(set_to)
    condition, asynchronous, realtime = set_to["WORKER_REQUEST_SECONDS"]["Fn::If"]
    assert "IsAsynchronous" == condition
    assert float(realtime) < 60 < float(asynchronous) < 900


def assert_settings(set_to: dict[str, Any]) -> None:
    """Every WORKER_ variable is a setting, and those with plain values fit together."""
    ours = {name: value for name, value in set_to.items() if name.startswith("WORKER_")}
    fields = {name.removeprefix("WORKER_").lower(): value for name, value in ours.items()}
    plain = {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and not value.startswith("${")
    }

    assert set(fields) <= set(Settings.model_fields)
    Settings(**plain)


def test_the_dashboard_is_json() -> None:
    """CloudWatch refuses what is not, once all else is deployed."""
    body, names = properties(read_template(INFRA / "observability.yaml"), "Dashboard")[
        "DashboardBody"
    ]["Fn::Sub"]

    assert len(json.loads(body)["widgets"]) > 4
    assert {"AWS::Region", "Name", *names} == set(re.findall(r"\$\{([^}]+)\}", body))
