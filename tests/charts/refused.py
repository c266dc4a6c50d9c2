"""Values that the chart refuses, and a word that it must say of each."""


def merge(under, over):
    """As Helm lays values over one another."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    return {**under, **{key: merge(under.get(key), value) for key, value in over.items()}}


def annotation(name):
    return {"ingress": {"controller": "ingress-nginx", "hosts": ["mcp.example.com"], "annotations": {name: "x"}}}


CASES = [
    ("hashing on a session's header", {"ingress": {"streamableHttpStickiness": "hash-by-session"}}, "streamableHttpStickiness"),
    ("a sticky cookie", {"ingress": {"streamableHttpStickiness": "cookie"}}, "streamableHttpStickiness"),
    ("upstream-hash-by by annotation", annotation("nginx.ingress.kubernetes.io/upstream-hash-by"), "nginx.ingress.kubernetes.io/upstream-hash-by"),
    ("affinity by annotation", annotation("nginx.ingress.kubernetes.io/affinity"), "nginx.ingress.kubernetes.io/affinity"),
    ("F5's sticky cookie by annotation", annotation("nginx.com/sticky-cookie-services"), "nginx.com/sticky-cookie-services"),
    ("F5's lb-method by annotation", annotation("nginx.org/lb-method"), "nginx.org/lb-method"),
    ("a rewritten path", annotation("nginx.ingress.kubernetes.io/rewrite-target"), "nginx.ingress.kubernetes.io/rewrite-target"),
    ("buffering by annotation", annotation("nginx.ingress.kubernetes.io/proxy-buffering"), "nginx.ingress.kubernetes.io/proxy-buffering"),
    ("an unknown key", {"replicas": 3}, "replicas"),
    ("an unknown key within", {"ingress": {"class": "nginx"}}, "class"),
    ("an unknown setting of the gateway", {"config": {"limits": {"request_byte": "1MiB"}}}, "request_byte"),
    ("an unknown key of an upstream", {"upstreams": [{"name": "a", "url": "http://a.example/mcp", "tiemout": "1m"}]}, "tiemout"),
    ("a setting that is the chart's: listen", {"config": {"listen": "0.0.0.0:80"}}, "listen"),
    ("a setting that is the chart's: drain.budget", {"config": {"drain": {"budget": "1h"}}}, "budget"),
    ("the URL of Redis inline", {"config": {"store": {"redis_url": "redis://:password@redis"}}}, "redis_url"),
    ("sealing keys inline", {"config": {"sealing": {"keys": []}}}, "sealing"),
    ("a token inline", {"upstreams": [{"name": "a", "url": "http://a.example/mcp", "headers": {"Authorization": "Bearer t"}}]}, "secret"),
    ("a key of an object store inline", {"config": {"artifacts": {"store": "s3://b", "access_key": {"env": "A"}, "secret_key": "s"}}}, "secret"),
    ("several pods with a folder that each has of its own", {"config": {"artifacts": {"store": "file:///results"}}, "extraVolumeMounts": []}, "artifacts.store"),
    ("several pods without a Redis", {"redis": {"existingSecret": ""}}, "redis.existingSecret"),
    ("several pods by autoscaling without a Redis", {"replicaCount": 1, "autoscaling": {"enabled": True}, "redis": {"existingSecret": ""}}, "redis.existingSecret"),
    ("a Redis without a keyring", {"sealing": {"existingSecret": ""}}, "sealing.existingSecret"),
    ("a Redis with an empty keyring", {"sealing": {"keys": []}}, "sealing.keys"),
    ("an internal port without a Redis", {"replicaCount": 1, "internal": {"enabled": True}, "redis": {"existingSecret": ""}}, "internal.enabled"),
    ("nobody who says that there is no login", {"config": {"insecure_no_auth": False}}, "insecure_no_auth"),
    ("an ingress without a host", {"ingress": {"controller": "f5-nginx"}}, "ingress.hosts"),
    ("a route without a Gateway", {"ingress": {"controller": "gateway-api", "hosts": ["a.example"]}}, "parentRefs"),
    ("an unknown ingress", {"ingress": {"controller": "traefik"}}, "controller"),
    ("TLS without its Secret", {"ingress": {"controller": "ingress-nginx", "hosts": ["a.example"], "tls": {"enabled": True}}}, "ingress.tls.existingSecret"),
    ("two upstreams of one name", {"upstreams": [{"name": "a", "url": "http://a.example/mcp"}] * 2}, "stands twice"),
    ("no margin for the end of a pod", {"drain": {"marginSeconds": 0}}, "marginSeconds"),
]
