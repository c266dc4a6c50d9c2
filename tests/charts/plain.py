"""The manifests of `deploy/`: what the chart renders for the values beside them, for those who run no Helm."""

import chart as charts

HEAD = """\
# Rendered from helm/plasm-mcp with {values} by scripts/charts --write; change those, not this.
"""


def files(chart):
    """Text by path."""
    made = {}
    for values in sorted(charts.DEPLOY.rglob("values.yaml")):
        manifests = charts.render(chart, charts.values(values), release="plasm-mcp", namespace="plasm-mcp")
        manifests.pop("NOTES.txt", None)
        head = HEAD.format(values=values.relative_to(charts.ROOT))
        documents = [text if text.startswith("---") else f"---\n{text}" for text in manifests.values()]
        text = "".join(documents).replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
        made[values.parent / "plasm-mcp.yaml"] = head + text
    return made
