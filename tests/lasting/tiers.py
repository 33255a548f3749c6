"""Configurations of tiers whose blocks are files or objects."""

GRAIN = 4096


def fs_tier(blocks: int, name: str = "fs0", **fields: object) -> dict[str, object]:
    """The configuration of a tier of files with room for some blocks of at most a page each."""
    place = {"directory": f"/nowhere/{name}", "capacity": blocks * GRAIN}
    return {"name": name, "medium": "fs", **place, **fields}


def obj_tier(blocks: int, name: str = "obj0", **fields: object) -> dict[str, object]:
    """The same of a tier of objects."""
    place = {"url": f"s3://bucket/{name}", "capacity": blocks * GRAIN}
    return {"name": name, "medium": "obj", **place, **fields}
