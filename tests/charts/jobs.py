"""Runs each Job of `helm test` as it is rendered: its command, with its environment and volumes and nothing else, as its user on
a read-only root, against the cluster of scripts/cluster, whose pods have the configuration that the chart wrote for them.

    jobs.py SCRATCH CLUSTER        CLUSTER is scripts/cluster; what it has built is there already
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "box"))

import api
import box
import chart as charts
from check import verdict
from refused import merge

TOKEN = "the-token-of-a-service-account"
SECRETS = {("smoke", "token"): "unused-while-there-is-no-login"}
# What this machine may have and the image has not, and what a gate would take where it is.
FOREIGN = ("kubectl",)


def given(port=80):
    """Values: every gate, and the Service at this port."""
    return merge(
        charts.values(charts.CI / "default-values.yaml"),
        {
            "replicaCount": 3,
            "service": {"port": port},
            "drain": {"propagationSeconds": 1},
            "smoke": {"rollout": True, "token": {"existingSecret": "smoke"}},
        },
    )


def rendered(port=80):
    with charts.loaded() as chart:
        return charts.objects(charts.render(chart, given(port)))


def weight(job):
    return int(job["metadata"]["annotations"]["helm.sh/hook-weight"])


def environment(container):
    """Of the container alone: values, and secrets by their names."""
    for variable in container["env"]:
        if "value" in variable:
            yield variable["name"], variable["value"]
        else:
            ref = variable["valueFrom"]["secretKeyRef"]
            yield variable["name"], SECRETS[ref["name"], ref["key"]]


def root_of(scratch, found, job, certificate):
    """The root of the Job's pod: this machine's programs in place of its image, its volumes, and what the kubelet adds."""
    spec = job["spec"]["template"]["spec"]
    [container] = spec["containers"]
    root = Path(tempfile.mkdtemp(dir=scratch))
    root.chmod(0o755)
    box.system(root)
    (root / "tools").mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in FOREIGN:
            (root / "tools" / tool.name).symlink_to(tool)
    hosts = scratch / "hosts"
    service = charts.the(found, "Deployment")["metadata"]["name"]
    hosts.write_text(f"127.0.0.1 localhost {service}.{charts.NAMESPACE}.svc\n")
    box.bind(hosts, root / "etc/hosts")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {mounted["mountPath"]: volumes[mounted["name"]] for mounted in container["volumeMounts"]}
    box.furnish(root, tmp="emptyDir" in mounts.get("/tmp", {}))
    for place, volume in mounts.items():
        if "configMap" in volume:
            write(root / place.lstrip("/"), charts.the(found, "ConfigMap", volume["configMap"]["name"])["data"])
    if spec["automountServiceAccountToken"]:
        account = {"token": TOKEN, "namespace": charts.NAMESPACE, "ca.crt": certificate.read_text()}
        write(root / "var/run/secrets/kubernetes.io/serviceaccount", account)
    box.seal(root)
    return root


def write(folder, files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def run(scratch, found, job, server, certificate):
    name, spec = job["metadata"]["name"], job["spec"]["template"]["spec"]
    [container] = spec["containers"]
    user = "{runAsUser}:{runAsGroup}".format(**spec["securityContext"])
    kubelet = {"PATH": "/tools", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": server.port}
    command = box.inside(root_of(scratch, found, job, certificate), user, kubelet | dict(environment(container)), container["command"])
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=job["spec"]["activeDeadlineSeconds"])
    last = (done.stdout.splitlines() or [""])[-1]
    verdict(f"{name}: {' '.join(container['command'])}: {last}", [f"{done.returncode}: {done.stdout} {done.stderr}"] if done.returncode else [])


def rights(found, server):
    """What the rollout gate asked of the cluster's API is what its Role gives it."""
    job = next(job for job in found if job["kind"] == "Job" and job["spec"]["template"]["spec"]["automountServiceAccountToken"])
    binding, role = charts.the(found, "RoleBinding"), charts.the(found, "Role")
    [rule] = role["rules"]
    account = {"kind": "ServiceAccount", "name": job["spec"]["template"]["spec"]["serviceAccountName"], "namespace": charts.NAMESPACE}
    yield from server.refused
    if binding["subjects"] != [account] or binding["roleRef"]["name"] != role["metadata"]["name"]:
        yield f"{binding['subjects']} are bound to {binding['roleRef']}"
    if (rule["apiGroups"], rule["resources"]) != ([""], ["pods"]) or set(rule["verbs"]) != server.asked:
        yield f"it asked for {sorted(server.asked)} of pods, and may {rule}"


def main(scratch, cluster):
    scratch = Path(scratch)
    scratch.mkdir()
    os.environ["PLASM_CLUSTER_DIR"] = str(scratch / "cluster")
    found = rendered()
    config = charts.the(found, "ConfigMap", charts.the(found, "Deployment")["metadata"]["name"])["data"]["config.yaml"]
    write(scratch / "keys", dict.fromkeys(given()["sealing"]["keys"], "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="))
    (scratch / "config.yaml").write_text(config.replace("/run/secrets/plasm-mcp/sealing", str(scratch / "keys")))
    up = subprocess.run([cluster, "up", "--pods", "3", "--no-build", "--config", scratch / "config.yaml", "--demo"], capture_output=True, text=True)
    verdict("three pods with the chart's configuration", [up.stdout + up.stderr] if up.returncode else [])
    if up.returncode:
        return
    try:
        told = subprocess.run([cluster, "env"], check=True, capture_output=True, text=True).stdout
        env = dict(line.partition("=")[::2] for line in told.splitlines())
        found = rendered(int(env["PLASM_URL"].split(":")[2].split("/")[0]))
        certificate = Path(env["PLASM_CA"])
        labels = charts.the(found, "Deployment")["spec"]["template"]["metadata"]["labels"]
        server = api.Api(cluster, charts.NAMESPACE, labels, TOKEN, certificate, certificate.with_name("key.pem"))
        for job in sorted((each for each in found if each["kind"] == "Job"), key=weight):
            run(scratch, found, job, server, certificate)
        verdict("the rollout gate has the rights that it uses, and no others", list(rights(found, server)))
    finally:
        subprocess.run([cluster, "down"], capture_output=True)


if __name__ == "__main__":
    box.enter()
    main(*sys.argv[1:])
