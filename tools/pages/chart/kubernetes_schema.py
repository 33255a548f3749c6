"""The schema of what the chart hands to Kubernetes: names of fields, so that typos are found."""

from typing import Any


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | ({"required": required.split()} if required else {})


def _enum(*words: str) -> dict[str, Any]:
    return {"enum": list(words)}


def _strategy(*types: str, **rolling: Any) -> dict[str, Any]:
    return _object("type", type=_enum(*types), rollingUpdate=_object(**rolling))


_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean"}
_WHOLE = {"type": "integer", "minimum": 0}
_OBJECT = {"type": "object"}
_LIST = {"type": "array"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_PODS = {"oneOf": [_WHOLE, {"type": "string", "pattern": "^[0-9]+%$"}]}
_SELECTOR = _object(matchLabels=_TEXTS, matchExpressions=_LIST)
_QUANTITY = {
    "description": "A Kubernetes quantity: a number with a unit such as Gi.",
    "oneOf": [
        _WHOLE,
        {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$"},
    ],
}
_AMOUNTS = {
    "type": "object",
    "properties": {"memory": {"$ref": "#/definitions/quantity"}},
    "additionalProperties": {"type": ["string", "number"]},
}
_PEER = _object(
    podSelector=_SELECTOR,
    namespaceSelector=_SELECTOR,
    ipBlock=_object("cidr", **{"cidr": _NAME, "except": _LIST}),
)

KUBERNETES: dict[str, dict[str, Any]] = {
    "quantity": _QUANTITY,
    "texts": _TEXTS,
    "nameOnly": _object("name", name=_NAME),
    "peer": _PEER | {"minProperties": 1},
    "egressRule": _object(to={"type": "array", "items": _PEER}, ports=_LIST),
    "resources": _object(
        requests=_AMOUNTS,
        limits=_AMOUNTS,
        claims={"type": "array", "items": _object("name", name=_NAME, request=_TEXT)},
    ),
    "resourceClaim": _object(
        "name", name=_NAME, resourceClaimName=_NAME, resourceClaimTemplateName=_NAME
    ),
    "variable": _object("name", name=_NAME, value=_TEXT, valueFrom=_OBJECT),
    # There are many kinds of volumes, and more come.
    "volume": {"type": "object", "required": ["name"], "properties": {"name": _NAME}},
    "volumeMount": _object(
        "name mountPath",
        name=_NAME,
        mountPath={"type": "string", "pattern": "^/"},
        mountPropagation=_TEXT,
        readOnly=_FLAG,
        recursiveReadOnly=_TEXT,
        subPath=_TEXT,
        subPathExpr=_TEXT,
    ),
    "toleration": _object(
        key=_TEXT, operator=_TEXT, value=_TEXT, effect=_TEXT, tolerationSeconds=_WHOLE
    ),
    "affinity": _object(nodeAffinity=_OBJECT, podAffinity=_OBJECT, podAntiAffinity=_OBJECT),
    "topologySpread": _object(
        "maxSkew topologyKey whenUnsatisfiable",
        maxSkew={"type": "integer", "minimum": 1},
        topologyKey=_NAME,
        whenUnsatisfiable=_enum("DoNotSchedule", "ScheduleAnyway"),
        minDomains={"type": "integer", "minimum": 1},
        nodeAffinityPolicy=_TEXT,
        nodeTaintsPolicy=_TEXT,
        matchLabelKeys=_LIST,
    ),
    "daemonSetStrategy": _strategy(
        "RollingUpdate", "OnDelete", maxUnavailable=_PODS, maxSurge=_PODS
    ),
    "statefulSetStrategy": _strategy(
        "RollingUpdate", "OnDelete", partition=_WHOLE, maxUnavailable=_PODS
    ),
    "deploymentStrategy": _strategy(
        "RollingUpdate", "Recreate", maxUnavailable=_PODS, maxSurge=_PODS
    ),
}
