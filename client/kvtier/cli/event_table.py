"""What a table shows of event records."""

from kvtier.cli.events import BLOCK_EVENTS
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import word
from kvtier.cli.tiers import state_text


def _event(record: Record) -> str:
    if record["event"] == "stored" and record["sequence"] is None:
        return "holds"
    return str(record["event"] if record["event"] in BLOCK_EVENTS else record["event"].upper())


def _position(record: Record) -> str:
    known = record["node_id"] or record["through"]
    return str(record.get("sequence") or record["through"]) if known else ""


def _blocks(record: Record) -> str:
    return str(
        len(record["block_hashes"]) if "block_hashes" in record else record.get("blocks", "")
    )


def _about(record: Record) -> str:
    words = [record.get("namespace_name", "")]
    match record["event"]:
        case "reset":
            words.append(word(record["reason"], "RESET_REASON_"))
        case "synced":
            words.append(f"epoch {record['epoch']}")
        case "namespace":
            words.append(record["namespace"]["name"])
        case "state" if record["tier"]:
            words.append(state_text(record["tier_state"], record["reason"]))
        case "state":
            words += [word(record["source"], "SOURCE_STATE_"), record["reason"]]
        case "removed":
            words.append(word(record["reason"], "REMOVAL_REASON_"))
    if "block_hashes" in record:
        more = "…" if len(record["block_hashes"]) > 1 else ""
        words.append(record["block_hashes"][0][:12] + more)
    return "  ".join(word for word in words if word)


COLUMNS = (
    Column("NODE", lambda r: r["node_id"], width=12),
    Column("POSITION", _position, right=True),
    Column("EVENT", _event, width=9),
    Column("TIER", lambda r: r.get("tier", ""), width=5),
    Column("BLOCKS", _blocks, right=True),
    Column("ABOUT", _about),
)
