"""values.schema.json of the chart: the schema of its own values, with the gateway's schema of its configuration in it, so that
a misspelt setting is refused before a pod sees it."""

import json
import subprocess
from pathlib import Path

# What the chart sets itself, at the top of the configuration.
CHARTS_OWN = ("listen", "admin_listen", "internal_listen", "internal_address", "upstreams", "profiles", "mcpServers", "sealing")
# And within its parts.
CHARTS_OWN_WITHIN = {"store": ("redis_url",), "drain": ("propagation", "budget")}


def without(schema, *, own):
    """The properties of an object but those."""
    left = {name: part for name, part in schema["properties"].items() if name not in own}
    return {**schema, "properties": left}


def plain(schema):
    """Without what is for the gateway alone, or for its editor: formats of its own, defaults."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if not key.startswith("x-") and key not in ("default", "format", "$schema")}
    for key, part in kept.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: plain(each) for name, each in part.items()}
        elif key == "description":
            kept[key] = " ".join(part.split())
        else:
            kept[key] = plain(part)
    return kept


def named(schema):
    """An item of a list instead of an entry of a map: a list keeps its order on its way through Helm."""
    name = {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}
    return {**schema, "properties": {"name": name, **schema["properties"]}, "required": ["name"]}


def whole(base: Path, gateway: str) -> str:
    """The text of the file; `gateway` is the binary."""
    config = json.loads(subprocess.run([gateway, "config", "schema"], check=True, capture_output=True).stdout)
    schema = json.loads(base.read_text())
    parts = config["properties"]
    settings = without(config, own=CHARTS_OWN)
    for part, own in CHARTS_OWN_WITHIN.items():
        settings["properties"][part] = without(settings["properties"][part], own=own)
    schema["$defs"] |= {
        "config": plain(settings),
        "upstream": plain(named(parts["upstreams"]["additionalProperties"])),
        "profile": plain(named(parts["profiles"]["additionalProperties"])),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
