"""Where something was run: versions and the kind of machine; no names of machines or people."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("primalsvm", "numpy", "scipy", "scikit-learn", "numba")


def environment() -> dict[str, str]:
    """Names and values for Page.facts."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    kind = f"{platform.system()} on {platform.machine()}"
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    found = versions | {"Python": platform.python_version(), "system": kind, "processor": _processor()}
    return {name: value for name, value in found.items() if value} | {"cores": str(os.cpu_count()), "written": written}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
