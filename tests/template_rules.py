"""Rules of our own for the CloudFormation templates: what no linter knows about this worker."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

Template = dict[str, Any]
Rule = Callable[[Template], Iterator[str]]

# An action that knows no resource, and why.
WITHOUT_RESOURCE = {
    "ecr:GetAuthorizationToken": "a login to ECR is for the whole registry",
    "ecs:DiscoverPollEndpoint": "an instance asks for ECS's address before it belongs to a cluster",
}
VISIBILITY_SECONDS = range(30, 43_201)


class _Loader(yaml.SafeLoader):
    """Reads ``!Sub x`` as ``{"Fn::Sub": x}``."""


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def read_template(path: Path) -> Template:
    """Parse a template, with short forms of functions written out."""
    return yaml.load(path.read_text(), _Loader)


def faults(template: Template) -> list[str]:
    """Return what breaks a rule, as ``rule: where``."""
    return [f"{rule.__name__}: {where}" for rule in RULES for where in rule(template)]


def _of_type(template: Template, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == kind:
            yield name, resource.get("Properties", {})


def _statements(tree: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every statement of every policy, with its place."""
    if isinstance(tree, dict):
        for one in tree.get("Statement", ()):
            yield f"{where}.{one.get('Sid', '?')}", one
        for name, value in tree.items():
            yield from _statements(value, f"{where}.{name}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _statements(value, f"{where}.{number}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def policies_name_their_resources(template: Template) -> Iterator[str]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::KMS::Key":
            continue  # in a key's own policy "*" is that key
        for where, statement in _statements(resource, name):
            if statement["Effect"] != "Allow" or "Resource" not in statement:
                continue
            actions = _list(statement["Action"])
            if "*" in _list(statement["Resource"]) and not set(actions) <= set(WITHOUT_RESOURCE):
                yield where


def policies_name_their_actions(template: Template) -> Iterator[str]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::KMS::Key":
            continue  # the account keeps the right to administer it
        for where, statement in _statements(resource, name):
            if statement["Effect"] == "Allow" and any(
                "*" in action for action in _list(statement["Action"])
            ):
                yield where


def nobody_else_is_let_in(template: Template) -> Iterator[str]:
    for name, resource in template["Resources"].items():
        for where, statement in _statements(resource, name):
            principal = statement.get("Principal")
            is_open = principal == "*" or (
                isinstance(principal, dict) and "*" in _list(principal.get("AWS"))
            )
            if statement["Effect"] == "Allow" and is_open:
                yield where


def services_act_for_this_account_only(template: Template) -> Iterator[str]:
    for name, resource in template["Resources"].items():
        for where, statement in _statements(resource, name):
            if "Service" in (statement.get("Principal") or {}) and "Condition" not in statement:
                yield where


def queues_and_topics_are_encrypted(template: Template) -> Iterator[str]:
    for kind in ("AWS::SQS::Queue", "AWS::SNS::Topic"):
        for name, properties in _of_type(template, kind):
            if not properties.get("KmsMasterKeyId"):
                yield name


def queues_take_tls_only(template: Template) -> Iterator[str]:
    covered = {
        queue["Ref"]
        for _, policy in _of_type(template, "AWS::SQS::QueuePolicy")
        for queue in policy["Queues"]
        if any(
            statement["Effect"] == "Deny"
            and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
            for statement in policy["PolicyDocument"]["Statement"]
        )
    }
    for name, _ in _of_type(template, "AWS::SQS::Queue"):
        if name not in covered:
            yield name


def visibility_is_within_limits(template: Template) -> Iterator[str]:
    for name, properties in _of_type(template, "AWS::SQS::Queue"):
        for seconds in _numbers(template, properties.get("VisibilityTimeout", 30)):
            if seconds not in VISIBILITY_SECONDS:
                yield f"{name}: {seconds}"


def dead_letters_outlive_their_source(template: Template) -> Iterator[str]:
    queues = dict(_of_type(template, "AWS::SQS::Queue"))
    for name, properties in queues.items():
        if "RedrivePolicy" not in properties:
            continue
        dead = queues[
            properties["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"].split(".")[0]
        ]
        kept = max(_numbers(template, properties["MessageRetentionPeriod"]))
        if kept >= min(_numbers(template, dead["MessageRetentionPeriod"])):
            yield name


def subscriptions_have_dead_letters(template: Template) -> Iterator[str]:
    for name, properties in _of_type(template, "AWS::SNS::Subscription"):
        if "RedrivePolicy" not in properties or properties.get("RawMessageDelivery") is not True:
            yield name


def images_are_pinned_by_digest(template: Template) -> Iterator[str]:
    for name, parameter in template.get("Parameters", {}).items():
        if name.endswith("ImageUri") and "@sha256:" not in parameter.get("AllowedPattern", ""):
            yield name


def parameters_are_described_and_bounded(template: Template) -> Iterator[str]:
    for name, parameter in template.get("Parameters", {}).items():
        limits = {"AllowedValues", "AllowedPattern", "MinValue"} & parameter.keys()
        if not parameter.get("Description") or not (limits or "AWS::" in parameter["Type"]):
            yield name


def containers_can_change_nothing(template: Template) -> Iterator[str]:
    for name, properties in _of_type(template, "AWS::ECS::TaskDefinition"):
        for container in _containers(properties):
            where = f"{name}.{container['Name']}"
            if container.get("ReadonlyRootFilesystem") is not True:
                yield where
            drops = container.get("LinuxParameters", {}).get("Capabilities", {}).get("Drop")
            if drops != ["ALL"]:
                yield where


def a_drain_fits_the_stop_timeout(template: Template) -> Iterator[str]:
    for name, properties in _of_type(template, "AWS::ECS::TaskDefinition"):
        for container in _containers(properties):
            set_to = {one["Name"]: one["Value"] for one in container.get("Environment", ())}
            window = float(set_to.get("WORKER_STOP_WINDOW_SECONDS", 0))
            if window > container.get("StopTimeout", 30):
                yield f"{name}.{container['Name']}"


def _containers(properties: Any) -> list[Any]:
    """Return a task's containers, those under a condition as well."""
    found = []
    for one in properties["ContainerDefinitions"]:
        found.append(one["Fn::If"][1] if "Fn::If" in one else one)
    return found


def _numbers(template: Template, value: Any) -> list[int]:
    """Return a number, or all ends of the range of the parameter that stands for it."""
    if isinstance(value, int):
        return [value]
    parameter = template["Parameters"][value["Ref"]]
    return [parameter["Default"], parameter["MinValue"], parameter["MaxValue"]]


RULES: tuple[Rule, ...] = (
    policies_name_their_resources,
    policies_name_their_actions,
    nobody_else_is_let_in,
    services_act_for_this_account_only,
    queues_and_topics_are_encrypted,
    queues_take_tls_only,
    visibility_is_within_limits,
    dead_letters_outlive_their_source,
    subscriptions_have_dead_letters,
    images_are_pinned_by_digest,
    parameters_are_described_and_bounded,
    containers_can_change_nothing,
    a_drain_fits_the_stop_timeout,
)
