//! Redis over TLS: a private authority, and a certificate of ours.

use plasm_mcp::store::redis::{Redis, Settings, StartError};
use plasm_mcp::store::{Commit, Store, Sure, Write};
use plasm_mcp::tls::Files;

use super::server::{Cluster, Server};
use crate::certificates::{Authority, Issued};
use crate::store::key;

/// A server that speaks TLS only, and asks for certificates of `authority`'s where `mutual` is yes.
fn secure(authority: &Authority, shown: &Issued, mutual: &str, more: &[&str]) -> Server {
    let text = |path: &std::path::Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (ca, cert, own) = (text(&authority.ca), text(&shown.cert), text(&shown.key));
    let args =
        ["--port", "0", "--tls-port", "{port}", "--tls-auth-clients", mutual, "--tls-ca-cert-file", &ca];
    let pair = ["--tls-cert-file", &cert, "--tls-key-file", &own];
    let login = ["--tls", "--cacert", &ca, "--cert", &cert, "--key", &own, "-h", "localhost"];
    Server::start_with(&[&args[..], &pair, more].concat(), &login)
}

async fn connect(url: String, tls: Files) -> Result<Redis, StartError> {
    Redis::connect(Settings { tls, ..Settings::new(url.into()) }).await
}

async fn serves(store: &Redis) {
    let writes = vec![(key("t"), Write::set("n", "1"))];
    assert!(matches!(store.commit(vec![], writes, Sure::Master).await, Ok(Commit::Done(_))));
}

#[tokio::test]
async fn a_redis_of_a_private_authority_serves_whoever_trusts_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = secure(&authority, &authority.issue(&["localhost", "127.0.0.1"]), "no", &[]);
    let files = |ca: &Authority| Files { ca: Some(ca.ca.clone()), ..Files::default() };
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("rediss://{host}:{}", server.port());
        serves(&connect(url, files(&authority)).await.expect("it is trusted")).await;
    }
    let url = format!("rediss://localhost:{}", server.port());
    for tls in [files(&other), Files::default()] {
        let error = connect(url.clone(), tls).await.err().expect("not trusted");
        assert!(
            matches!(error, StartError::Unreachable(_)) && error.to_string().contains("certificate"),
            "{error}"
        );
    }
    let error = connect(url.replace("rediss", "redis"), files(&authority)).await.err().expect("no TLS");
    assert!(matches!(error, StartError::Plain), "{error}");
}

#[tokio::test]
async fn a_redis_that_asks_for_certificates_serves_ours_and_no_other() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = secure(&authority, &authority.issue(&["localhost"]), "yes", &[]);
    let url = format!("rediss://localhost:{}", server.port());
    let files = |shown: Issued| Files {
        ca: Some(authority.ca.clone()),
        cert: Some(shown.cert),
        key: Some(shown.key),
    };
    let store = connect(url.clone(), files(authority.issue(&["gateway"]))).await.expect("ours is taken");
    serves(&store).await;
    for tls in
        [files(other.issue(&["gateway"])), Files { ca: Some(authority.ca.clone()), ..Files::default() }]
    {
        let error = connect(url.clone(), tls).await.err().expect("no certificate of its authority's");
        assert!(matches!(error, StartError::Unreachable(_)), "{error}");
    }
    let mut wrong = files(authority.issue(&["gateway"]));
    wrong.key = Some(authority.issue(&["another"]).key);
    let error = connect(url, wrong).await.err().expect("another's key");
    assert!(matches!(&error, StartError::Tls(error) if error.to_string().contains("another.key")), "{error}");
}

/// Its nodes name each other by address, their certificate bears the cluster's name alone.
#[tokio::test]
async fn a_cluster_over_tls_is_known_by_the_name_in_its_url() {
    let authority = Authority::new();
    let shown = authority.issue(&["localhost"]);
    let nodes = (0..3)
        .map(|_| secure(&authority, &shown, "no", &["--cluster-enabled", "yes", "--tls-cluster", "yes"]));
    let cluster = Cluster { nodes: nodes.collect() };
    let slots = [(0, 5461), (5462, 10922), (10923, 16383)];
    for (node, (first, last)) in cluster.nodes.iter().zip(slots) {
        assert_eq!(
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).trim(),
            "OK"
        );
        node.cli(&["CLUSTER", "MEET", "127.0.0.1", &cluster.nodes[0].port().to_string()]);
    }
    cluster.is_whole().await;
    let url = format!("rediss-cluster://localhost:{}", cluster.nodes[0].port());
    let tls = Files { ca: Some(authority.ca.clone()), ..Files::default() };
    let store = connect(url, tls).await.expect("it is trusted");
    for _ in 0..20 {
        serves(&store).await;
    }
}
