"""The chart through Helm's own engine: rendered, and read as strictly as a careful reader would."""

from contextlib import contextmanager
from pathlib import Path

import helm_python as helm
import yaml

helm.disable_logging()
ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "plasm-mcp"
BASE = CHART / "values.schema.base.json"
CI = CHART / "ci"
DEPLOY = ROOT / "deploy"
RELEASE, NAMESPACE = "plasm", "mcp"


class Strict(yaml.SafeLoader):
    """YAML in which no key stands twice: of two, a cluster would take one in silence."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"twice: {', '.join(map(str, twice))}", node.start_mark)
        return super().construct_mapping(node, deep)


def read(text):
    """All documents in it that are not empty."""
    return [document for document in yaml.load_all(text, Loader=Strict) if document]


def values(path):
    return yaml.load(Path(path).read_text(), Loader=Strict)


@contextmanager
def loaded():
    with helm.Chart.load(CHART) as chart:
        yield chart


def lint(given):
    """What Helm's linter finds, warnings included."""
    report = helm.lint(CHART, given, strict=True, namespace=NAMESPACE)
    found = [message["error"] for message in report["messages"] if message["severity"] > 1]
    return found + [error for error in report["errors"] if error not in found]


def render(chart, given, release=RELEASE, namespace=NAMESPACE):
    """Manifests by file, in order, without what rendered to nothing."""
    files = chart.render(given, name=release, namespace=namespace)
    texts = {name.split("/templates/")[1]: text.strip() + "\n" for name, text in sorted(files.items())}
    return {name: text for name, text in texts.items() if text.strip()}


def objects(manifests):
    return [each for name, text in manifests.items() if name != "NOTES.txt" for each in read(text)]


def the(found, kind, name=None):
    """The only object of a kind (and name)."""
    [one] = [each for each in found if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    return one
