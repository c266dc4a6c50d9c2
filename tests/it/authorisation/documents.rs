//! Clients whose id is the address of a document: read by a guarded client, kept for all pods, and not lost when it refuses.

use super::site::{Site, get, parameter, query};
use crate::certificates::Authority;
use crate::store::redis::server::Server;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// A client's web server.
struct Host {
    address: SocketAddr,
    /// What it answers: status and body.
    says: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicU32>,
    authority: Authority,
    _serving: AbortOnDropHandle<()>,
}

impl Host {
    async fn start() -> Host {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = Authority::new();
        let issued = authority.issue(&["localhost"]);
        let cert = CertificateDer::from_pem_file(&issued.cert).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&issued.key).expect("a key");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert], key)
            .expect("a server");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let says = Arc::new(Mutex::new((200, String::new())));
        let asked = Arc::new(AtomicU32::new(0));
        let (answers, counts) = (says.clone(), asked.clone());
        let serving = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, answers, counts) = (acceptor.clone(), answers.clone(), counts.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(socket).await else { return };
                    let _ = stream.read(&mut [0; 4096]).await;
                    counts.fetch_add(1, Ordering::SeqCst);
                    let (status, body) = answers.lock().expect("no holder panics").clone();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        }));
        Host { address, says, asked, authority, _serving: serving }
    }

    fn id(&self) -> String {
        format!("https://localhost:{}/oauth/client.json", self.address.port())
    }

    fn say(&self, status: u16, body: &Value) {
        *self.says.lock().expect("no holder panics") = (status, body.to_string());
    }

    fn document(&self) -> Value {
        json!({
            "client_id": self.id(), "client_name": "Code", "token_endpoint_auth_method": "none",
            "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
        })
    }

    /// Pods that trust its authority, and may reach it.
    fn site(&self, pods: usize) -> Site {
        let outside = json!({
            "egress": { "inside": ["127.0.0.0/8", "::1/128"] }, "outbound": { "tls": { "ca": self.authority.ca } },
        });
        let redis = (pods > 1).then(|| Server::start(&[]));
        Site::of(pods, redis, json!({}), outside)
    }
}

#[tokio::test]
async fn b102_a_client_of_a_document_logs_in_with_any_port_on_loopback() {
    let host = Host::start().await;
    host.say(200, &host.document());
    let site = host.site(1);
    for redirect in ["http://127.0.0.1:53124/callback", "http://localhost:9/callback"] {
        let code = site.code("carol", &host.id(), redirect).await;
        let tokens = site.redeem(0, &host.id(), redirect, &code).await;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        assert_eq!(site.calls(0, tokens.json()["access_token"].as_str().expect("a token")).await, 200);
    }
    assert_eq!(host.asked.load(Ordering::SeqCst), 1, "it is kept");
    for foreign in ["http://127.0.0.1:1/other", "https://claude.ai/api/mcp/auth_callback"] {
        let reply = get(site.at(0), &format!("/authorize?{}", query(&host.id(), foreign, &[])), &[]).await;
        assert_eq!(reply.status, 400, "{foreign}");
    }
}

#[tokio::test]
async fn a_document_that_refuses_to_be_read_locks_nobody_out_for_good() {
    let host = Host::start().await;
    let site = host.site(3);
    let path = format!("/authorize?{}", query(&host.id(), "http://localhost:1/callback", &[]));
    host.say(403, &json!({}));
    assert_eq!(get(site.at(0), &path, &[]).await.status, 502, "nothing is known yet");
    host.say(200, &host.document());
    assert_eq!(get(site.at(1), &path, &[]).await.status, 303, "another pod reads it");
    let mut browser = site.browser(1, "carol");
    let page = browser.log_in(&query(&host.id(), "http://localhost:1/callback", &[])).await;
    host.say(403, &json!({}));
    assert_eq!(get(site.at(2), &path, &[]).await.status, 502, "what nobody has allowed is not kept for all");
    let done = browser.decide(&page, "allow").await.onward();
    let code = parameter(&done, "code").expect("a code");
    for pod in [0, 2] {
        assert_eq!(get(site.at(pod), &path, &[]).await.status, 303, "all have it");
    }
    let tokens = site.redeem(0, &host.id(), "http://localhost:1/callback", &code).await;
    assert_eq!(tokens.status, 200, "{}", tokens.text);
    let refresh = tokens.json()["refresh_token"].as_str().expect("a token").to_owned();
    assert_eq!(site.renew(1, &host.id(), &refresh).await.status, 200);
}

#[tokio::test]
async fn a_consent_on_a_pod_that_has_not_read_the_document_keeps_it_for_all() {
    let host = Host::start().await;
    let site = host.site(3);
    let request = query(&host.id(), "http://localhost:1/callback", &[]);
    host.say(200, &host.document());
    let mut browser = site.browser(0, "carol");
    let page = browser.log_in(&request).await;
    browser.pod = site.at(1);
    let code = parameter(&browser.decide(&page, "allow").await.onward(), "code").expect("a code");
    host.say(403, &json!({}));
    assert_eq!(get(site.at(2), &format!("/authorize?{request}"), &[]).await.status, 303);
    let tokens = site.redeem(2, &host.id(), "http://localhost:1/callback", &code).await;
    assert_eq!(tokens.status, 200, "{}", tokens.text);
}

#[tokio::test]
async fn a_host_that_does_not_answer_keeps_no_other_from_being_read() {
    let host = Host::start().await;
    host.say(200, &host.document());
    let site = host.site(1);
    // Its connections stand in its queue, and nobody takes them.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let at = site.at(0);
    let mut asking: JoinSet<_> = (0..20)
        .map(|n| async move {
            let id = format!("https://127.0.0.1:{port}/{n}.json");
            get(at, &format!("/authorize?{}", query(&id, "http://localhost/callback", &[])), &[]).await.status
        })
        .collect();
    // Those that found no place are told so; the others wait for the host.
    for _ in 0..12 {
        assert_eq!(asking.join_next().await.expect("twenty").expect("no panic"), 502);
    }
    let path = format!("/authorize?{}", query(&host.id(), "http://localhost:1/callback", &[]));
    assert_eq!(get(at, &path, &[]).await.status, 303);
}

#[tokio::test]
async fn a_document_that_is_not_its_clients_own_is_refused() {
    let host = Host::start().await;
    let site = host.site(1);
    let mut foreign = host.document();
    foreign["client_id"] = "https://other.example/client.json".into();
    host.say(200, &foreign);
    let path = format!("/authorize?{}", query(&host.id(), "http://localhost:1/callback", &[]));
    assert_eq!(get(site.at(0), &path, &[]).await.status, 400);
}
