"""Shelves of objects, and blocks to keep on them."""

from typing import Any
from uuid import uuid4

import numpy as np

from kvtier.server.lasting.objects import ObjectShelf
from kvtier.server.lasting.record import make_name
from kvtier.server.stores.base import Bytes
from tests.s3.server import REGION, s3_client

HEAD = bytes(range(200))


class Place:
    """A prefix of a bucket that a test has to itself.

    Attributes:
        endpoint: The server's URL.
        bucket: The bucket's name.
        prefix: The prefix.
    """

    def __init__(self, endpoint: str, bucket: str) -> None:
        self.endpoint = endpoint
        self.bucket = bucket
        self.prefix = f"tests/{uuid4().hex}"

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def open(self, endpoint: str = "", **changes: Any) -> ObjectShelf:
        """Open a shelf there, through another endpoint where one is given."""
        settings: dict[str, Any] = {
            "node_id": "node-a",
            "tier": "obj0",
            "endpoint": endpoint or self.endpoint,
            "region": REGION,
            "io_timeout": 10.0,
            "concurrency": 4,
        }
        settings |= changes
        return ObjectShelf(settings.pop("url", self.url), **settings)

    def keys(self) -> list[str]:
        """Return the keys of all objects under the prefix, without it."""
        pages = s3_client(self.endpoint).get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=self.prefix)
        objects = [each["Key"] for page in found for each in page.get("Contents", [])]
        return [key.removeprefix(f"{self.prefix}/") for key in objects]

    def others(self) -> dict[str, object]:
        """Return the tags of all objects of the bucket beside the prefix, by their whole keys."""
        pages = s3_client(self.endpoint).get_paginator("list_objects_v2")
        found = [each for page in pages.paginate(Bucket=self.bucket) for each in page["Contents"]]
        mine = f"{self.prefix}/"
        return {each["Key"]: each["ETag"] for each in found if not each["Key"].startswith(mine)}

    def write(self, key: str, data: bytes) -> None:
        """Write an object under the prefix by other means."""
        client = s3_client(self.endpoint)
        client.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}", Body=data)

    def remove(self, key: str) -> None:
        """Remove an object under the prefix by other means."""
        client = s3_client(self.endpoint)
        client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")

    def read(self, key: str) -> bytes:
        """Read an object under the prefix by other means."""
        client = s3_client(self.endpoint)
        found = client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")
        data: bytes = found["Body"].read()
        return data

    def written(self, key: str) -> tuple[object, object]:
        """Return what tells one write of an object from another: its tag, and when it was."""
        client = s3_client(self.endpoint)
        found = client.head_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")
        return found["ETag"], found["LastModified"]


def name_of(number: int) -> str:
    return make_name(b"n" * 32, 0, b"", number.to_bytes(8, "big"), number)


def key_of(name: str) -> str:
    return f"blocks/{name[:2]}/{name}"


def block(number: int, size: int = 3000) -> Bytes:
    return np.random.default_rng(number).integers(0, 256, size, np.uint8)


def put(shelf: ObjectShelf, number: int, size: int = 3000) -> str:
    """Put a block, and return its name."""
    name = name_of(number)
    shelf.put(name, [HEAD, block(number, size).data])
    return name


def get(shelf: ObjectShelf, number: int, size: int = 3000) -> tuple[bytes, Bytes]:
    """Get a block in two parts."""
    head, payload = np.zeros(len(HEAD), np.uint8), np.zeros(size, np.uint8)
    shelf.get(name_of(number), [head, payload])
    return head.tobytes(), payload
