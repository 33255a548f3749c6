"""What things are called with `-o name`: the kind, a slash, and the name that commands take."""

from kvtier.cli.output.base import Namer, Record


def node_name(record: Record) -> str:
    """Return "node/NODE"; empty for a node that did not say its id."""
    return f"node/{record['node_id']}" if record["node_id"] else ""


def tier_name(record: Record) -> str:
    """Return "tier/NODE/TIER", also of a tier that a proxy tells of, whose name has the node."""
    name = record["name"]
    return f"tier/{name}" if "/" in name else f"tier/{record['node_id']}/{name}"


def namespace_name(record: Record) -> str:
    """Return "namespace/NAME"."""
    return f"namespace/{record['name']}"


def block_name(record: Record) -> str:
    """Return "block/HASH", with the whole hash."""
    return f"block/{record['block_hash']}"


def pin_name(record: Record) -> str:
    """Return "pin/PIN"; empty for a block that was not pinned."""
    return f"pin/{record['pin']}" if record["pin"] else ""


def block_name_if(*results: str) -> Namer:
    """Return what names a block whose result is one of some, and leaves out the others."""
    return lambda record: block_name(record) if record["result"] in results else ""


def without_kind(kind: str, text: str) -> str:
    """Return a name that may have its kind before it, such as "block/HASH", without it."""
    return text.removeprefix(f"{kind}/")
