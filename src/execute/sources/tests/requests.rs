//! Requests as the mapping says, whatever is given.

use super::*;

async fn sent(operations: &str, operation: &str, key: Json, args: Json) -> Result<Seen, SourceError> {
    let server = Server::start(|_, _| json!({"id": "1", "items": []}).into()).await;
    let catalog = catalog(&format!("{}/api/v1/", server.base()), ", headers: {x-api: '2'}", operations);
    sources().ask(ask(&catalog, operation, key, args)).await.map(|_| server.seen().remove(0))
}

#[tokio::test]
async fn what_is_given_cannot_climb_out_of_the_path() {
    let get = |id: &'static str| sent(GET, "get", json!({"id": id}), json!({}));
    for (id, path) in [
        ("a/b", "/api/v1/things/a%2Fb"),
        ("a?b#c&d=e", "/api/v1/things/a%3Fb%23c%26d%3De"),
        ("50%25", "/api/v1/things/50%2525"),
        ("ä é", "/api/v1/things/%C3%A4%20%C3%A9"),
        ("a..b", "/api/v1/things/a..b"),
    ] {
        assert_eq!(get(id).await.unwrap().target(), path);
    }
    for id in ["..", ".", "../x", "x/..", "..\\x", "", "a\r\nb", "a/./b", "%2e%2e", "x/.%2E/y"] {
        let error = get(id).await.unwrap_err();
        assert!(!error.uncertain && error.kind == SourceErrorKind::Status, "{id:?}: {error}");
    }
    let twice = "  get: {kind: get, entity: Thing, http: {send: 'GET /t/{key.id}{key.id}/x', row: $}}\n";
    assert!(sent(twice, "get", json!({"id": "."}), json!({})).await.is_err());
}

#[tokio::test]
async fn a_query_bears_arrays_and_constants_and_leaves_out_what_is_not_given() {
    let list = "  list: {kind: query, entity: Thing, args: {a: json, b: string, c: string}, http: {send: 'GET /things?v=1', query: \
                {a: args.a, b: args.b, c: args.c, n: 7, t: {const: 'args.a'}}, headers: {x-b: args.b, x-c: args.c}, rows: \
                $.items.*}}\n";
    let seen = sent(list, "list", json!({}), json!({"a": ["x&y", 2], "b": "ü"})).await.unwrap();
    let error = sent(list, "list", json!({}), json!({"b": "x\r\nevil: 1"})).await.unwrap_err();
    assert_eq!(seen.target(), "/api/v1/things?v=1&a=x%26y&a=2&b=%C3%BC&n=7&t=args.a");
    assert_eq!((seen.header("x-api"), seen.header("x-c")), (Some("2"), None));
    assert!(error.message.contains("x-b"), "{error}");
}

#[tokio::test]
async fn a_body_leaves_out_what_is_not_given_and_keeps_what_is_null() {
    let make = "  make: {kind: create, entity: Thing, args: {a: string, b: string, c: string}, effect: {class: write}, http: {send: \
                POST /things, body: {a: args.a, in: {b: args.b, deep: {c: args.c}}, list: [args.c], k: {const: x}}, row: $}}\n";
    let seen = sent(make, "make", json!({}), json!({"a": null, "b": "y"})).await.unwrap();
    let body: Json = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(body, json!({"a": null, "in": {"b": "y"}, "k": "x"}));
    assert_eq!(seen.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn the_key_of_a_write_stands_in_its_header() {
    let make = MAKE.replace("class: write", "class: write, idempotency_header: Idempotency-Key");
    let server = Server::start(|n, _| match n {
        0 => answer("503 Service Unavailable", "retry-after: 0\r\n", ""),
        _ => json!({"id": "1"}).into(),
    })
    .await;
    let catalog = catalog(&server.base(), "", &make);
    let keyed =
        Ask { idempotency_key: Some("k1".into()), ..ask(&catalog, "make", json!({}), json!({"name": "a"})) };
    sources().ask(keyed).await.unwrap();
    let keys: Vec<_> =
        server.seen().iter().map(|seen| seen.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!(
        keys,
        [Some("k1".to_owned()), Some("k1".to_owned())],
        "a write that is known again may be made again"
    );
}
