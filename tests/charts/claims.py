"""What must hold of every rendering, and between several."""

import re

import chart as charts
from refused import merge

# Annotations that would bring a client back to one pod, or another path to the gateway.
PINNING = re.compile(r"affinity|session-cookie|sticky|hash-by|rewrite", re.I)
# Text that is a secret, or could be one.
SECRET = re.compile(r"rediss?(-sentinel|-cluster)?://[^$\s]*@|BEGIN [A-Z ]*PRIVATE KEY")


def broken(found, given):
    """Claims of one rendering, each with what speaks against it."""
    deployment = charts.the(found, "Deployment")
    pod = deployment["spec"]["template"]
    spec = pod["spec"]
    [container] = spec["containers"]
    name = deployment["metadata"]["name"]
    services = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "Service"}

    def selects(selector):
        return selector.items() <= pod["metadata"]["labels"].items()

    ports = {port["name"] for port in container["ports"]}
    yield "selectors choose the pods, and ports are theirs", [
        f"{each['kind']} {each['metadata']['name']}"
        for each in found
        for selector, named in [selection(each)]
        if selector is not None and not (selects(selector) and named <= ports)
    ]

    rolling = deployment["spec"]["strategy"]["rollingUpdate"]
    yield "a rollout takes no pod away before another is ready", [
        rolling for _ in [1] if rolling["maxUnavailable"] != 0 or rolling["maxSurge"] in (0, "0%")
    ]

    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    drain = [int(re.search(rf"{key}: (\d+)s", configuration(found))[1]) for key in ("propagation", "budget")]
    grace = spec["terminationGracePeriodSeconds"]
    yield "preStop waits for the whole drain, and the grace period is longer", [
        f"{hook}, drain {drain}, grace {grace}" for _ in [1] if hook != ["plasm-mcp", "drain", "--wait", f"{sum(drain)}s"] or grace < sum(drain) + 8
    ]

    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    expected = {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    yield "probes ask the admin port", [
        f"{kind}: {probe}" for kind, probe in probes.items() if probe != {"path": expected[kind], "port": "admin"}
    ]

    yield "pods keep to the restricted standard, and hold no token of the cluster", list(loose(found))

    public = [service["ports"] for service in services.values() if service.get("clusterIP") != "None"]
    yield "the admin port is no client's way in", [ports for ports in public if [port["name"] for port in ports] != ["http"]]

    pinned = [service for service in services.values() if service.get("sessionAffinity", "None") != "None"]
    annotations = [key for each in found for key in each["metadata"].get("annotations", {}) if PINNING.search(key)]
    yield "nothing pins a client to a pod", pinned + annotations

    texts = [str(each) for each in found]
    yield "no secret stands in a manifest", [each["kind"] for each in found if each["kind"] == "Secret"] + [
        match[0] for text in texts for match in [SECRET.search(text)] if match
    ]

    routed = [each for each in found if each["kind"] in ("Ingress", "HTTPRoute")]
    yield "every way in ends at the Service", [each["metadata"]["name"] for each in routed if not arrives(each, name, services[name])]

    ordered = re.findall(r"^  ([a-z0-9-]+):$", configuration(found).partition("upstreams:\n")[2].partition("profiles:")[0], re.M)
    yield "upstreams keep their order", [ordered for _ in [1] if ordered != [one["name"] for one in given.get("upstreams", [])]]


def selection(each):
    """The labels by which an object finds the gateway's pods, and the names of ports that it takes from them."""
    spec = each.get("spec", {})
    match each["kind"]:
        case "Service":
            return spec["selector"], {port["targetPort"] for port in spec["ports"]}
        case "Deployment" | "PodDisruptionBudget":
            return spec["selector"]["matchLabels"], set()
        case "NetworkPolicy":
            return spec["podSelector"]["matchLabels"], {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
    return None, set()


def configuration(found):
    return charts.the(found, "ConfigMap", charts.the(found, "Deployment")["metadata"]["name"])["data"]["config.yaml"]


def loose(found):
    """Where a pod asks for more than the restricted pod security standard gives."""
    for each in found:
        template = each.get("spec", {}).get("template")
        if template is None:
            continue
        spec, named = template["spec"], f"{each['kind']} {each['metadata']['name']}"
        pod = spec["securityContext"]
        if not (pod["runAsNonRoot"] and pod["runAsUser"] > 0 and pod["seccompProfile"] == {"type": "RuntimeDefault"}):
            yield f"{named}: {pod}"
        if spec["automountServiceAccountToken"] and not spec.get("serviceAccountName", "").endswith("-rollout"):
            yield f"{named}: holds a token"
        for container in spec["containers"]:
            own = container["securityContext"]
            strict = (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"], own["capabilities"]) == (False, True, {"drop": ["ALL"]})
            if not strict or not container["resources"].get("limits", {}).get("memory"):
                yield f"{named}: {own}, {container['resources']}"


def arrives(route, name, service):
    if route["kind"] == "HTTPRoute":
        return all(
            (ref["name"], ref["port"]) == (name, service["ports"][0]["port"]) for rule in route["spec"]["rules"] for ref in rule["backendRefs"]
        )
    backends = [path["backend"]["service"] for rule in route["spec"]["rules"] for path in rule["http"]["paths"]]
    return bool(backends) and all(backend == {"name": name, "port": {"name": "http"}} for backend in backends)


def between(chart, sets):
    """Claims that need more than one rendering."""

    def objects(name, **change):
        return charts.objects(charts.render(chart, merge(sets[name], change)))

    def annotations(found):
        return charts.the(found, "Deployment")["spec"]["template"]["metadata"].get("annotations", {})

    before, after = objects("default"), objects("default", config={"log": {"filter": "debug"}})
    yield "a changed configuration replaces the pods", [a for a in [annotations(before)] if not a or a == annotations(after)]
    before, after = objects("everything"), objects("everything", config={"log": {"filter": "debug"}})
    yield "and with rolloutOnConfigChange: false it does not", [a for a in [annotations(after)] if a != annotations(before)]

    expected = {
        "everything": {
            "nginx.ingress.kubernetes.io/proxy-buffering": "off",
            "nginx.ingress.kubernetes.io/proxy-http-version": "1.1",
            "nginx.ingress.kubernetes.io/proxy-read-timeout": "3600",
            "nginx.ingress.kubernetes.io/proxy-send-timeout": "3600",
            "nginx.ingress.kubernetes.io/proxy-body-size": str(2 * 4 * 1024 * 1024),
        },
        "f5": {
            "nginx.org/proxy-buffering": "False",
            "nginx.org/proxy-read-timeout": "3600s",
            "nginx.org/proxy-send-timeout": "3600s",
            "nginx.org/client-max-body-size": str(2 * 16 * 1024 * 1024),
        },
    }
    for name, wanted in expected.items():
        has = charts.the(objects(name), "Ingress")["metadata"]["annotations"]
        yield f"{name}: streams pass its ingress unbuffered and unhurried", [item for item in wanted.items() if item not in has.items()]
    timeouts = charts.the(objects("gateway-api"), "HTTPRoute")["spec"]["rules"][0]["timeouts"]
    yield "gateway-api: streams pass its route unhurried", [t for t in [timeouts] if set(t.values()) != {"0s"}]

    fewer = objects("everything", networkPolicy={"enabled": False}, autoscaling={"enabled": False}, serviceMonitor={"enabled": False}, prometheusRule={"enabled": False})
    kinds = {each["kind"] for each in objects("everything")} - {each["kind"] for each in fewer}
    yield "what is turned off is not there", [kinds for _ in [1] if kinds != {"NetworkPolicy", "HorizontalPodAutoscaler", "ServiceMonitor", "PrometheusRule"}]
    alerts = list(charts.read((charts.ROOT / "deploy/prometheus/rules.yaml").read_text()))
    rules = charts.the(objects("everything"), "PrometheusRule")["spec"]
    yield "its alerts are those of deploy/prometheus, to the letter", [rules for _ in [1] if [rules] != alerts]
    replicas = charts.the(objects("everything"), "Deployment")["spec"].get("replicas")
    yield "where pods are scaled by load the chart says no number", [replicas for _ in [1] if replicas is not None]
