"""Generate the Python code of protos/kvtier/v1 into a folder.

Usage: python tools/gen_protos.py [OUT], where OUT defaults to the protos folder itself.
"""

import shutil
import sys
import sysconfig
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


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTOS)
