//! Connections to upstreams: authorities and certificates of one's own, and proxies, as the configuration and the
//! environment name them. TLS and proxies are real ones; the upstream behind them is a gateway with its demo.

use crate::certificates::{Authority, Issued};
use crate::gateway::Gateway;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// An upstream that takes any `Host`, with the demonstration's tools and no more.
fn upstream() -> Gateway {
    Gateway::demo(json!({ "allowed_hosts": ["*"], "profiles": { "default": { "surface": "tools" } } }))
}

/// TLS before an upstream.
struct Front {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Front {
    /// Shows this certificate; asks for one of `clients`' if it is given, and lets nobody else in.
    async fn start(shown: &Issued, clients: Option<&Authority>, upstream: SocketAddr) -> Front {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("usual versions");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(&authority.ca).expect("PEM")).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().expect("roots"))
            }
        };
        let chain = vec![CertificateDer::from_pem_file(&shown.cert).expect("PEM")];
        let key = PrivateKeyDer::from_pem_file(&shown.key).expect("PEM");
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).expect("a pair")));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (address, accepted) = (listener.local_addr().expect("bound"), Arc::new(AtomicUsize::new(0)));
        let count = accepted.clone();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = TcpStream::connect(upstream).await.expect("the upstream listens");
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Front { address, accepted, _serving: AbortOnDropHandle::new(serving) }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/mcp", self.address.port())
    }
}

/// A proxy that joins whoever asks to one server, whatever the name: it alone knows what names mean.
struct Proxy {
    address: SocketAddr,
    /// The heads of the requests that opened its connections.
    heads: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

const LOGIN: &str = "Basic dXNlcjpwQHNz";

impl Proxy {
    async fn before(server: SocketAddr, login: bool) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (address, heads) = (listener.local_addr().expect("bound"), Arc::new(Mutex::new(Vec::new())));
        let seen = heads.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                        if client.read_buf(&mut read).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let head = String::from_utf8_lossy(&read).into_owned();
                    let let_in = !login || head.contains(LOGIN);
                    let tunnel = head.starts_with("CONNECT ");
                    seen.lock().expect("no holder panics").push(head);
                    if !let_in {
                        let no = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
                        let _ = client.write_all(no).await;
                        return;
                    }
                    let mut server = TcpStream::connect(server).await.expect("the server listens");
                    if tunnel {
                        let _ = client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
                    } else {
                        let _ = server.write_all(&read).await;
                    }
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Proxy { address, heads, _serving: AbortOnDropHandle::new(serving) }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no holder panics").clone()
    }
}

async fn echoes(gateway: &Gateway, tool: &str) {
    let answer = gateway.modern().call(tool, json!({ "text": "ü" })).await;
    assert_eq!(answer["content"][0]["text"], "ü", "{answer}");
}

/// That the gateway's only upstream is away, for this reason.
async fn is_away(gateway: &Gateway, why: &str) {
    let error = gateway.modern().error("tools/list", json!({})).await;
    let said = error["message"].as_str().unwrap_or_default();
    assert_eq!(error["data"]["reason"], "upstream_unreachable", "{error}");
    assert!(said.contains(why), "{why}: {error}");
    assert!(!gateway.log().contains("dXNlc"), "a login in the log");
}

/// The upstreams whose part is missing in lists.
async fn missing(gateway: &Gateway) -> Value {
    gateway.modern().result("tools/list", json!({})).await["_meta"]["plasm/missing"].clone()
}

#[tokio::test]
async fn a_bundle_makes_a_private_authority_trusted_and_no_other_name_or_authority() {
    let (authority, other, upstream) = (Authority::new(), Authority::new(), upstream());
    let front = Front::start(&authority.issue(&["127.0.0.1"]), None, upstream.address).await;
    let with = |url: String, ca: Option<&Authority>| {
        let mut up = json!({ "url": url });
        if let Some(ca) = ca {
            up["tls"]["ca"] = json!(ca.ca);
        }
        Gateway::start(json!({ "upstreams": { "up": up } }))
    };
    echoes(&with(front.url("127.0.0.1"), Some(&authority)), "echo").await;
    is_away(&with(front.url("127.0.0.1"), None), "its certificate is not trusted").await;
    is_away(&with(front.url("127.0.0.1"), Some(&other)), "its certificate is not trusted").await;
    is_away(&with(front.url("localhost"), Some(&authority)), "its certificate is for another name").await;
    let of_all = json!({ "upstreams": { "up": { "url": front.url("127.0.0.1") } }, "outbound": { "tls": { "ca": authority.ca } } });
    echoes(&Gateway::start(of_all), "echo").await;
}

#[tokio::test]
async fn a_certificate_of_ours_opens_a_server_that_asks_for_one() {
    let (authority, upstream) = (Authority::new(), upstream());
    let (server, client) = (authority.issue(&["127.0.0.1"]), authority.issue(&["gateway"]));
    let other = Authority::new();
    let stranger = other.issue(&["gateway"]);
    let front = Front::start(&server, Some(&authority), upstream.address).await;
    let up = json!({ "url": front.url("127.0.0.1"), "tls": { "ca": authority.ca } });
    let shown = |issued: &Issued| json!({ "ca": authority.ca, "cert": issued.cert, "key": issued.key });
    let own = json!({ "upstreams": { "up": { "url": up["url"], "tls": shown(&client) } } });
    echoes(&Gateway::start(own), "echo").await;
    let of_all = json!({ "upstreams": { "up": up }, "outbound": { "tls": shown(&client) } });
    echoes(&Gateway::start(of_all), "echo").await;
    // Since TLS 1.3 a client hears of it only when it waits for an answer.
    for tls in [json!({ "ca": authority.ca }), shown(&stranger)] {
        let refused = Gateway::start(json!({ "upstreams": { "up": { "url": up["url"], "tls": tls } } }));
        let error = refused.modern().error("tools/list", json!({})).await;
        assert_eq!(error["data"]["upstream"], "up", "{error}");
    }
}

#[tokio::test]
async fn tls_goes_through_a_proxy_that_sees_the_name_alone() {
    let (authority, upstream) = (Authority::new(), upstream());
    let front = Front::start(&authority.issue(&["up.test"]), None, upstream.address).await;
    let proxy = Proxy::before(front.address, true).await;
    let by = |login: &str| {
        let proxy = format!("http://{login}{}", proxy.address);
        let up = json!({ "url": "https://up.test/mcp", "proxy": proxy });
        Gateway::start(json!({ "upstreams": { "up": up }, "outbound": { "tls": { "ca": authority.ca } } }))
    };
    echoes(&by("user:p%40ss@"), "echo").await;
    let heads = proxy.heads();
    assert!(
        !heads.is_empty() && heads.iter().all(|head| head.starts_with("CONNECT up.test:443 HTTP/1.1\r\n"))
    );
    assert!(front.accepted.load(SeqCst) > 0);
    is_away(&by(""), "the proxy wants a login").await;
    is_away(&by("other:pw@"), "the proxy wants a login").await;
}

#[tokio::test]
async fn the_environments_proxies_serve_every_upstream_but_those_that_no_proxy_names() {
    let upstream = upstream();
    let proxy = Proxy::before(upstream.address, true).await;
    let url = format!("http://user:p%40ss@{}", proxy.address);
    let config = json!({ "upstreams": {
        "far": { "url": "http://up.test/mcp" },
        "near": { "url": upstream.url },
        "off": { "url": "http://x.off.test/mcp" },
    } });
    for (http, no) in [("HTTP_PROXY", "NO_PROXY"), ("http_proxy", "no_proxy")] {
        let gateway = Gateway::in_environment(config.clone(), &[(http, &url), (no, "other.test, .off.test")]);
        echoes(&gateway, "far__echo").await;
        echoes(&gateway, "near__echo").await;
        assert_eq!(missing(&gateway).await, json!(["off"]));
        assert!(gateway.log().contains("its name has no address"), "{}", gateway.log());
        let heads = proxy.heads();
        assert!(
            heads.iter().all(|head| head.starts_with("POST http://up.test/mcp HTTP/1.1\r\n")),
            "{heads:?}"
        );
        assert!(heads.iter().all(|head| head.contains(LOGIN)), "{heads:?}");
        assert!(!heads.is_empty());
    }
    // The configuration goes before the environment.
    let seen = proxy.heads().len();
    let mut config = config;
    config["outbound"]["proxy"] = json!("none");
    let gateway = Gateway::in_environment(config, &[("HTTP_PROXY", &url)]);
    assert_eq!(missing(&gateway).await, json!(["far", "off"]));
    echoes(&gateway, "near__echo").await;
    assert_eq!(proxy.heads().len(), seen);
}

#[tokio::test]
async fn a_proxy_that_is_away_is_told_from_an_upstream_that_is() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    for url in ["https://up.test/mcp", "http://up.test/mcp"] {
        let up = json!({ "url": url, "proxy": format!("http://{gone}") });
        let gateway = Gateway::start(json!({ "upstreams": { "up": up } }));
        is_away(&gateway, "the proxy cannot be reached").await;
    }
}

/// What the gateway says before it ends with exit code 2.
fn refused(config: &Value, variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plasm.yaml");
    std::fs::write(&file, config.to_string()).expect("the folder takes a file");
    let said = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(2), "{text}");
    text
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start_by_its_setting_and_its_file() {
    let authority = Authority::new();
    let (one, two) = (authority.issue(&["one"]), authority.issue(&["two"]));
    let (ca, cert, key) = (one.key.display(), one.cert.display(), two.key.display());
    let up = |more: Value| {
        let mut up = json!({ "url": "https://up.test/mcp" });
        up.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "upstreams": { "up": up } })
    };
    let all = |more: Value| {
        let mut config = up(json!({}));
        config["outbound"] = more;
        config
    };
    let table = [
        (up(json!({ "tls": { "ca": one.key } })), format!("upstreams.up.tls.ca: {ca}: holds no certificate")),
        (
            up(json!({ "tls": { "cert": one.cert, "key": two.key } })),
            format!("upstreams.up.tls.key: {key}: is not the key of {cert}"),
        ),
        (up(json!({ "tls": { "cert": one.cert } })), "upstreams.up.tls.cert: needs key beside it".to_owned()),
        (up(json!({ "proxy": "socks5://p:1" })), "upstreams.up.proxy: is not the URL".to_owned()),
        (
            all(json!({ "tls": { "ca": "/gone.pem" } })),
            "outbound.tls.ca: /gone.pem: cannot be read".to_owned(),
        ),
        (all(json!({ "proxy": "ftp://user:secret@p" })), "outbound.proxy: is not the URL".to_owned()),
    ];
    for (config, want) in table {
        let said = refused(&config, &[]);
        assert!(said.contains(&want) && !said.contains("secret"), "{want}\n{said}");
    }
    let said = refused(&up(json!({})), &[("HTTPS_PROXY", "socks5://user:secret@p:1")]);
    assert!(said.contains("HTTPS_PROXY: is not the URL") && !said.contains("secret"), "{said}");
}

/// What a cloud says: a role for a web identity, and the names in a bucket for that role. Else nothing.
async fn cloud() -> (SocketAddr, Arc<Mutex<Vec<String>>>, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, seen) = (listener.local_addr().expect("bound"), Arc::new(Mutex::new(Vec::new())));
    let noted = seen.clone();
    let answer = move |request: axum::extract::Request| {
        let header = |name: &str| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (uri, login) = (request.uri().to_string(), header("authorization"));
        noted.lock().expect("no holder panics").push(format!("{} {uri} {login}", header("host")));
        let role = uri.contains("Action=AssumeRoleWithWebIdentity")
            && uri.contains("WebIdentityToken=token-of-the-pod");
        let granted = login.contains("Credential=ROLEID/") && header("x-amz-security-token") == "role-token";
        let (status, text) = match header("host").as_str() {
            "sts.test" if role => (
                200,
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <SessionToken>role-token</SessionToken><SecretAccessKey>role-secret</SecretAccessKey>\
                 <AccessKeyId>ROLEID</AccessKeyId><Expiration>2999-01-01T00:00:00Z</Expiration>\
                 </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
            ),
            "s3.test" if granted => (200, "<ListBucketResult></ListBucketResult>"),
            _ => (403, "<Error><Code>AccessDenied</Code></Error>"),
        };
        let answer = http::Response::builder().status(status).body(axum::body::Body::from(text));
        async move { answer.expect("a response") }
    };
    let serving = tokio::spawn(async move {
        let _ = axum::serve(listener, axum::Router::new().fallback(answer)).await;
    });
    (address, seen, AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn an_object_store_is_reached_by_the_proxy_under_the_private_authority_with_the_role_of_the_machine() {
    let authority = Authority::new();
    let (cloud, seen, _serving) = cloud().await;
    let front = Front::start(&authority.issue(&["s3.test", "sts.test"]), None, cloud).await;
    let proxy = Proxy::before(front.address, true).await;
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "token-of-the-pod").expect("a file");
    let gateway = |login: &str| {
        let config = json!({
            "demo": true,
            "outbound": { "proxy": format!("http://{login}{}", proxy.address), "tls": { "ca": authority.ca } },
            "artifacts": { "store": "s3://results/ours", "endpoint": "https://s3.test", "region": "eu-x-1" },
        });
        let environment = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().expect("text")),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_ENDPOINT_URL_STS", "https://sts.test"),
        ];
        Gateway::in_environment(config, &environment)
    };
    let ours = gateway("user:p%40ss@");
    let asked = |of: &str| seen.lock().expect("no holder panics").iter().any(|line| line.contains(of));
    crate::harness::comes_true("the bucket is looked at", || async { asked("s3.test /results?") }).await;
    assert!(
        asked("sts.test /?Action=AssumeRoleWithWebIdentity") && asked("/eu-x-1/s3/aws4_request"),
        "{seen:?}"
    );
    assert!(proxy.heads().iter().all(|head| head.starts_with("CONNECT s")), "{:?}", proxy.heads());
    ours.still_serves().await;
    assert!(!ours.log().contains("the object store is away"), "{}", ours.log());
    let without = gateway("");
    let away = "the object store is away";
    crate::harness::comes_true("it warns", || async { without.log().contains(away) }).await;
    let log = without.log();
    assert!(log.contains("the proxy wants a login"), "{log}");
    assert!(!log.contains("role-secret") && !log.contains("token-of-the-pod"), "{log}");
}
