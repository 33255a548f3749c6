"""Generate the Python code of protos/kvtier/v1, or check that the committed code is up to date.

Usage: python tools/gen_protos.py [--check]
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"


def generate(out: Path) -> None:
    """Write the *_pb2 modules and their stubs for every proto file below `out`."""
    sources = sorted(str(p.relative_to(PROTOS)) for p in PROTOS.glob("kvtier/v1/*.proto"))
    well_known = Path(sysconfig.get_paths()["purelib"]) / "grpc_tools" / "_proto"
    scripts = Path(sys.executable).parent
    plugins = [
        f"--plugin={name}={shutil.which(name, path=str(scripts)) or name}"
        for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    arguments = [
        "protoc",
        f"--proto_path={PROTOS}",
        f"--proto_path={well_known}",
        *plugins,
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out={out}",
        f"--mypy_grpc_out={out}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        sys.exit("error: protoc refused the proto files (its words are above)")
    package = out / "kvtier" / "v1"
    for name in ("__init__.py", "py.typed"):
        (package / name).touch()
    services = {p.stem for p in PROTOS.glob("kvtier/v1/*_service.proto")}
    for stub in package.glob("*_pb2_grpc.py*"):
        if stub.name.split("_pb2_grpc")[0] not in services:
            stub.unlink()


def outdated(committed: Path) -> list[str]:
    """Return the names of generated files below `committed` that are not what the protos give."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, found = _generated(Path(folder)), _generated(committed)
    return sorted(name for name in fresh | found if fresh.get(name) != found.get(name))


def _generated(out: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (out / "kvtier" / "v1").glob("*_pb2*.py*")}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when outdated")
    if not parser.parse_args().check:
        generate(PROTOS)
    elif names := outdated(PROTOS):
        sys.exit(f"error: outdated: {', '.join(names)}; run `make protos` and commit the result")


if __name__ == "__main__":
    main()
