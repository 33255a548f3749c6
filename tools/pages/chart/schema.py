"""The schema of the values: types from values.yaml, the configuration from the models."""

import json
from typing import Any

from tools.pages.chart.config_schema import SIZE, definitions
from tools.pages.chart.kubernetes_schema import KUBERNETES
from tools.pages.chart.values import Value, values

_TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
_NAME = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", "maxLength": 253}
_KEY = {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}
_DURATION = {"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$", "minLength": 2}
_COUNT = {"type": "integer", "minimum": 1}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


# More than the type of the default says, by the value's path or the last part of it.
_RULES: dict[str, dict[str, Any]] = {
    "image.repository": {"type": "string", "minLength": 1},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "listenAddress": {"type": "string", "pattern": "^([0-9.]+|\\[[0-9a-f:.]+\\])$"},
    **{f"ports.{name}": _PORT for name in ("node", "proxy", "health", "metrics")},
    "existingSecret": _NAME,
    "secret": _NAME,
    "key": _KEY,
    "duration": _DURATION,
    "renewBefore": _DURATION,
    "metrics.podMonitor.interval": _DURATION,
    "auth.grants": {"type": "array", "items": _ref("GrantConfig")},
    "node.config": _ref("NodeConfig"),
    "storage.config": _ref("NodeConfig"),
    "proxy.config": _ref("ProxyConfig"),
    "memoryOverhead": _ref("size"),
    "sharedMemory.hostPath": {"type": "string", "pattern": "^(/.+)?$"},
    "mountPath": {"type": "string", "pattern": "^/.+"},
    "persistence.size": _ref("quantity"),
    "whenDeleted": {"enum": ["Retain", "Delete"]},
    "whenScaled": {"enum": ["Retain", "Delete"]},
    "replicas": _COUNT,
    "podDisruptionBudget.maxUnavailable": _COUNT,
    "labels": _ref("texts"),
    "annotations": _ref("texts"),
    "podLabels": _ref("texts"),
    "podAnnotations": _ref("texts"),
    "nodeSelector": _ref("texts"),
    "accessModes": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    "imagePullSecrets": {"type": "array", "items": _ref("nameOnly")},
    "from": {"type": "array", "items": _ref("peer")},
    "egress.rules": {"type": "array", "items": _ref("egressRule")},
    "resources": _ref("resources"),
    "resourceClaims": {"type": "array", "items": _ref("resourceClaim")},
    "extraEnv": {"type": "array", "items": _ref("variable")},
    "extraVolumes": {"type": "array", "items": _ref("volume")},
    "extraVolumeMounts": {"type": "array", "items": _ref("volumeMount")},
    "tolerations": {"type": "array", "items": _ref("toleration")},
    "affinity": _ref("affinity"),
    "topologySpreadConstraints": {"type": "array", "items": _ref("topologySpread")},
    "node.updateStrategy": _ref("daemonSetStrategy"),
    "storage.updateStrategy": _ref("statefulSetStrategy"),
    "proxy.updateStrategy": _ref("deploymentStrategy"),
}


def page() -> str:
    """Return the schema as JSON."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "description": "Made by `make docs` from values.yaml and the models of the configuration.",
        **_object(values(), ""),
        "definitions": {"size": SIZE} | KUBERNETES | definitions(),
    }
    return json.dumps(schema, indent=2) + "\n"


def _object(known: list[Value], prefix: str) -> dict[str, Any]:
    inner = [each for each in known if each.path.rpartition(".")[0] == prefix]
    properties = {each.path.rpartition(".")[2]: _value(each, known) for each in inner}
    # Other charts that have this one as a part hand these in.
    shared = {} if prefix else {"global": {"type": "object"}}
    return {"type": "object", "additionalProperties": False, "properties": properties | shared}


def _value(value: Value, known: list[Value]) -> dict[str, Any]:
    schema = _object(known, value.path) if value.group else _rule(value)
    return {"description": value.description, **schema} if value.description else schema


def _rule(value: Value) -> dict[str, Any]:
    parts = value.path.split(".")
    for first in range(len(parts)):
        rule = _RULES.get(".".join(parts[first:]))
        if rule is not None:
            return rule
    kind = _TYPES[type(value.default)]
    if kind in {"array", "object"}:
        raise KeyError(f"no rule says what {value.path} may hold")
    return {"type": kind}
