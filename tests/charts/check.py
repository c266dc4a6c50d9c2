"""Holds the chart to what it claims, one line a check.

    check.py GATEWAY CUSTOM        GATEWAY is the binary; the custom resources that were rendered are written to CUSTOM
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import helm_python as helm
import kubernetes_validate

import chart as charts
import claims
import plain
import refused
import schema

# The oldest Kubernetes that Chart.yaml admits, and the newest whose schemas there are.
KUBERNETES = ("1.30", kubernetes_validate.latest_version())
CUSTOM = ("gateway.networking.k8s.io", "monitoring.coreos.com")


def verdict(name, faults):
    print(f"FAIL {name}: {'; '.join(str(fault).replace(chr(10), ' ') for fault in faults)}" if faults else f"ok {name}")


def is_custom(each):
    return each["apiVersion"].split("/")[0] in CUSTOM


def invalid(found):
    """What strict schemas of Kubernetes say against the objects."""
    for each in found:
        for version in () if is_custom(each) else KUBERNETES:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                where = ".".join(map(str, getattr(error, "path", ())))
                yield f"{each['kind']} {each['metadata']['name']}, {version}: {where}: {error.message}"


def unusable(gateway, found):
    """What the gateway says against the configuration that the chart writes for it. Secrets are not here, which it warns of."""
    text = charts.the(found, "ConfigMap", charts.the(found, "Deployment")["metadata"]["name"])["data"]["config.yaml"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.yaml")
        file.write_text(text)
        done = subprocess.run([gateway, "config", "check", file], capture_output=True, text=True)
    return [] if done.returncode == 0 else [done.stderr.strip()]


def main(gateway, custom):
    verdict(
        "values.schema.json has the gateway's own schema in it (scripts/charts --write)",
        [] if (charts.CHART / "values.schema.json").read_text() == schema.whole(charts.BASE, gateway) else ["it is out of date"],
    )
    customs = []
    with charts.loaded() as chart:
        sets = {path.name.removesuffix("-values.yaml"): charts.values(path) for path in sorted(charts.CI.glob("*-values.yaml"))}
        sets |= {str(path.relative_to(charts.ROOT)): charts.values(path) for path in sorted(charts.DEPLOY.rglob("values.yaml"))}
        for name, given in sets.items():
            verdict(f"{name}: helm lint --strict", charts.lint(given))
            found = charts.objects(charts.render(chart, given))
            verdict(f"{name}: {len(found)} objects against Kubernetes {' and '.join(KUBERNETES)}, strictly", list(invalid(found)))
            verdict(f"{name}: config check", unusable(gateway, found))
            customs += [{"set": name, "object": each} for each in found if is_custom(each)]
            for claim, faults in claims.broken(found, given):
                verdict(f"{name}: {claim}", faults)
        redis = charts.read((charts.DEPLOY / "redis-sentinel/redis.yaml").read_text())
        verdict("deploy/redis-sentinel/redis.yaml: strictly valid, and restricted", [*invalid(redis), *claims.loose(redis)])
        for claim, faults in claims.between(chart, sets):
            verdict(claim, faults)
        for what, given, word in refused.CASES:
            verdict(f"refused: {what}", not_refused(chart, given, word))
        for path, text in plain.files(chart).items():
            there = path.read_text() if path.exists() else "nothing"
            verdict(f"{path.relative_to(charts.ROOT)} is what the chart renders (scripts/charts --write)", [] if there == text else ["it is out of date"])
    Path(custom).write_text(json.dumps(customs))


def not_refused(chart, given, word):
    merged = refused.merge(charts.values(charts.CI / "default-values.yaml"), given)
    try:
        charts.render(chart, merged)
    except helm.HelmError as error:
        return [] if word in str(error) else [f"it does not say {word!r}: {error}"]
    return ["it is rendered"]


if __name__ == "__main__":
    main(*sys.argv[1:])
