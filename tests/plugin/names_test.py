"""What NCCL looks for by name is installed: NCCL_{NET,TUNER,ENV}_PLUGIN=horing. Argument: the build."""
import json
import pathlib
import subprocess
import sys

installed = json.loads(subprocess.check_output(["meson", "introspect", "--installed", sys.argv[1]]))
folders = {}
for path in map(pathlib.PurePath, installed.values()):
    folders.setdefault(path.name, set()).add(path.parent)
missing = [f"libnccl-{kind}-horing.so" for kind in ("net", "tuner", "env")
           if f"libnccl-{kind}-horing.so" not in folders]
if missing:
    sys.exit(f"not installed: {', '.join(missing)}")
if len(set.union(*(folders[f"libnccl-{kind}-horing.so"] for kind in ("net", "tuner", "env")))) != 1:
    sys.exit(f"installed in several folders: {folders}")
