//! Stored results on each store and in each kind of object store: a folder, and S3 where `PLASM_TEST_S3` says that there is
//! one (`scripts/objects`). A "pod" here has an [`Artifacts`] of its own, made by the house from a configuration.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plasm_mcp::config::Config;
use plasm_mcp::execute::artifacts::{ArtifactError, Artifacts, LARGEST, Rows, SMALL, Stored, Wanted, Which};
use plasm_mcp::execute::fault::Fault;
use plasm_mcp::execute::logical::{Held, Owner};
use plasm_mcp::execute::run::{ColumnShown, Covered, RootRows, Shown};
use plasm_mcp::house;
use plasm_mcp::store::{PodId, Store};
use serde_json::{Value as Json, json};

use crate::gateway::Gateway;
use crate::gateway::exchange::request;
use crate::logical::{memory_store, opened, person, pod, seed};
use crate::store::redis::server::Server;

/// Makes tests of every case: a folder with each store, and S3 with Redis.
macro_rules! everywhere {
    ($($case:ident),* $(,)?) => {
        mod folder_and_memory { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::World::new(super::memory_store(), super::Place::folder())).await;
            }
        )* }
        mod folder_and_redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let server = super::Server::start(&[]);
                super::$case(super::World::new(server.store().await, super::Place::folder())).await;
            }
        )* }
        mod s3_and_redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "it needs an S3 server: scripts/objects"]
            async fn $case() {
                let server = super::Server::start(&[]);
                super::$case(super::World::new(server.store().await, super::Place::s3().await)).await;
            }
        )* }
    };
}

everywhere!(
    a_large_result_is_paged_whole_on_another_pod_and_lies_in_one_object,
    small_results_lie_in_the_store_alone,
    what_is_foreign_is_unknown,
    rows_that_are_not_what_was_stored_are_not_given_out,
    an_object_that_is_gone_is_an_unknown_result,
    the_oldest_of_a_full_session_gives_way_with_its_object,
    many_pods_that_store_at_once_have_a_number_each,
    a_sweep_takes_what_is_over_and_nothing_else,
);

/// Where objects lie, looked at past the gateway.
enum Place {
    Folder(tempfile::TempDir),
    S3 { server: SocketAddr, bucket: String },
}

impl Place {
    fn folder() -> Place {
        Place::Folder(tempfile::tempdir().expect("a folder"))
    }

    async fn s3() -> Place {
        let server = std::env::var("PLASM_TEST_S3").expect("PLASM_TEST_S3 is host:port of an S3 server");
        let place = Place::S3 {
            server: server.parse().expect("an address"),
            bucket: PodId::random().to_string().to_lowercase(),
        };
        place.ask("PUT", "", String::new()).await;
        place
    }

    async fn ask(&self, verb: &str, rest: &str, body: String) -> String {
        let Place::S3 { server, bucket } = self else { panic!("it is a folder") };
        // The server wants a login for objects, and believes any.
        let login = "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let path = format!("/{bucket}{rest}");
        let mut answer = request(*server, verb, &path, &[("authorization", login)], body).await;
        assert!(answer.status < 300, "{verb} {rest}: {}", answer.status);
        String::from_utf8(answer.bytes().await.to_vec()).expect("text")
    }

    fn config(&self) -> Config {
        let artifacts = match self {
            Place::Folder(folder) => json!({ "store": format!("file://{}", folder.path().display()) }),
            Place::S3 { server, bucket } => json!({
                "store": format!("s3://{bucket}/ours/here"), "endpoint": format!("http://{server}"),
                "access_key": "id", "secret_key": "key",
            }),
        };
        serde_json::from_value(json!({ "artifacts": artifacts })).expect("a configuration")
    }

    /// The names of all objects, from where ours begin.
    async fn names(&self) -> Vec<String> {
        match self {
            Place::Folder(folder) => {
                let mut found = Vec::new();
                files(folder.path(), &mut found);
                let inner = |file: &PathBuf| {
                    file.strip_prefix(folder.path()).expect("it lies there").display().to_string()
                };
                found.iter().map(inner).collect()
            }
            Place::S3 { .. } => {
                let listed = self.ask("GET", "?list-type=2", String::new()).await;
                let keys = listed.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
                keys.map(|(key, _)| key.strip_prefix("ours/here/").unwrap_or(key).to_owned()).collect()
            }
        }
    }

    async fn write(&self, name: &str, text: String) {
        match self {
            Place::Folder(folder) => {
                let file = folder.path().join(name);
                std::fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
                std::fs::write(file, text).expect("a file");
            }
            Place::S3 { .. } => drop(self.ask("PUT", &format!("/ours/here/{name}"), text).await),
        }
    }

    async fn text(&self, name: &str) -> String {
        match self {
            Place::Folder(folder) => std::fs::read_to_string(folder.path().join(name)).expect("a file"),
            Place::S3 { .. } => self.ask("GET", &format!("/ours/here/{name}"), String::new()).await,
        }
    }

    async fn remove(&self, name: &str) {
        match self {
            Place::Folder(folder) => std::fs::remove_file(folder.path().join(name)).expect("it was there"),
            Place::S3 { .. } => drop(self.ask("DELETE", &format!("/ours/here/{name}"), String::new()).await),
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

struct World {
    store: Arc<dyn Store>,
    place: Place,
}

impl World {
    fn new(store: Arc<dyn Store>, place: Place) -> World {
        World { store, place }
    }

    /// As one more pod has them.
    fn artifacts(&self) -> Artifacts {
        house::artifacts(&self.place.config(), self.store.clone()).expect("it can be used")
    }

    async fn session(&self, owner: &Owner) -> Arc<Held> {
        opened(&pod(&self.store), owner, "x", &[seed("tracker", "Issue")]).await.held
    }
}

/// Rows of a number and a text of that many bytes.
fn rows(many: usize, wide: usize) -> RootRows {
    let column = |name: &str, holds: &str| ColumnShown { name: name.into(), holds: holds.into() };
    RootRows {
        root: 0,
        label: "rows".into(),
        node: 0,
        result: Shown::Rows {
            columns: vec![column("id", "int"), column("note", "text")],
            rows: (0..many).map(|id| vec![json!(id), Json::from("x".repeat(wide))]).collect(),
        },
        coverage: Covered::Complete,
        next: None,
        lossy: Vec::new(),
    }
}

fn ids(rows: &Rows) -> Vec<u64> {
    rows.rows.iter().map(|row| row[0].as_u64().expect("a number")).collect()
}

async fn put(
    artifacts: &Artifacts,
    (held, owner): (&Held, &Owner),
    rows: &RootRows,
) -> Result<Stored, ArtifactError> {
    artifacts.put(held, owner, rows, &BTreeSet::from(["tracker.issue_query".to_owned()])).await
}

async fn read(
    world: &World,
    (held, owner): (&Held, &Owner),
    stored: &Stored,
    offset: u64,
) -> Result<Rows, ArtifactError> {
    let wanted = Wanted { offset, ..Wanted::default() };
    world.artifacts().read(held, owner, &Which::Number(stored.n), &wanted).await
}

async fn a_large_result_is_paged_whole_on_another_pod_and_lies_in_one_object(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    // As large as one may be, or nearly.
    let wide = LARGEST / 5_000 - 20;
    let stored = put(&world.artifacts(), (&held, &anna), &rows(5_000, wide)).await.expect("it is stored");
    let names = world.place.names().await;
    assert_eq!(names.len(), 1);
    assert!(!names[0].contains(held.handle.as_str()), "a name tells no session's handle");
    assert!(stored.bytes > (LARGEST as u64) * 9 / 10);
    let (mut seen, mut offset) = (Vec::new(), Some(0));
    while let Some(from) = offset {
        let page = read(&world, (&held, &anna), &stored, from).await.expect("a page");
        assert!(page.total == 5_000 && !page.rows.is_empty());
        seen.extend(ids(&page));
        offset = page.next_offset;
    }
    assert_eq!(seen, (0..5_000).collect::<Vec<_>>());
    let by_run = Which::run(&stored.run_id).expect("a run's id");
    let last = Wanted { columns: Some(vec!["id".into()]), offset: 4_990, limit: Some(5) };
    let page = world.artifacts().read(&held, &anna, &by_run, &last).await.expect("a page");
    assert_eq!((ids(&page), page.next_offset), ((4_990..4_995).collect(), Some(4_995)));
}

async fn small_results_lie_in_the_store_alone(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let stored = put(&world.artifacts(), (&held, &anna), &rows(1, SMALL - 20)).await.expect("it is stored");
    assert!(world.place.names().await.is_empty());
    let page = read(&world, (&held, &anna), &stored, 0).await.expect("a page");
    assert_eq!((ids(&page), page.next_offset), (vec![0], None));
}

async fn what_is_foreign_is_unknown(world: World) {
    let (anna, ben) = (person("anna"), person("ben"));
    let (held, other) = (world.session(&anna).await, world.session(&ben).await);
    let stored = put(&world.artifacts(), (&held, &anna), &rows(5_000, 200)).await.expect("it is stored");
    let said = async |held: &Held, owner: &Owner, which: Which| {
        let read = world.artifacts().read(held, owner, &which, &Wanted::default()).await;
        let fault = Fault::from(read.expect_err("it is not theirs"));
        (fault.code, fault.message)
    };
    let unknown = said(&held, &anna, Which::Number(99)).await;
    assert_eq!(unknown.0, "session_unknown");
    for which in [Which::Number(stored.n), Which::run(&stored.run_id).expect("a run's id")] {
        // By a session of their own, and even by the very record of the other's.
        assert_eq!(said(&other, &ben, which.clone()).await, unknown);
        assert_eq!(said(&held, &ben, which).await, unknown);
    }
    assert!(read(&world, (&held, &anna), &stored, 0).await.is_ok());
}

async fn rows_that_are_not_what_was_stored_are_not_given_out(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let stored = put(&world.artifacts(), (&held, &anna), &rows(5_000, 200)).await.expect("it is stored");
    let name = world.place.names().await.remove(0);
    let text = world.place.text(&name).await;
    // The same length, one letter of the last row.
    world.place.write(&name, format!("{}y\"]\n", &text[..text.len() - 4])).await;
    assert!(read(&world, (&held, &anna), &stored, 0).await.is_ok(), "the first block is whole");
    let damaged = read(&world, (&held, &anna), &stored, 4_999).await;
    assert!(matches!(damaged, Err(ArtifactError::Damaged)), "{damaged:?}");
    world.place.write(&name, text).await;
    assert!(read(&world, (&held, &anna), &stored, 4_999).await.is_ok());
}

async fn an_object_that_is_gone_is_an_unknown_result(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let stored = put(&world.artifacts(), (&held, &anna), &rows(5_000, 200)).await.expect("it is stored");
    let name = world.place.names().await.remove(0);
    world.place.remove(&name).await;
    let gone = read(&world, (&held, &anna), &stored, 0).await;
    assert!(matches!(gone, Err(ArtifactError::Unknown)), "{gone:?}");
}

async fn the_oldest_of_a_full_session_gives_way_with_its_object(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(put(&world.artifacts(), (&held, &anna), &rows(15, 1 << 20)).await.expect("it is stored"));
    }
    assert_eq!(world.place.names().await.len(), 4, "64 MiB of them");
    let oldest = read(&world, (&held, &anna), &all[0], 0).await;
    assert!(matches!(oldest, Err(ArtifactError::Unknown)), "{oldest:?}");
    assert!(read(&world, (&held, &anna), &all[1], 14).await.is_ok());
}

async fn many_pods_that_store_at_once_have_a_number_each(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let (small, large) = (rows(3, 3), rows(2_000, 200));
    let puts = (0..8).map(|n| {
        let (world, held, anna, one) = (&world, &held, &anna, if n % 2 == 0 { &small } else { &large });
        async move { put(&world.artifacts(), (held, anna), one).await.expect("it is stored") }
    });
    let mut all = futures_util::future::join_all(puts).await;
    all.sort_unstable_by_key(|stored| stored.n);
    assert_eq!(all.iter().map(|stored| stored.n).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert_eq!(world.place.names().await.len(), 4);
    for stored in &all {
        assert!(read(&world, (&held, &anna), stored, 0).await.is_ok());
    }
}

async fn a_sweep_takes_what_is_over_and_nothing_else(world: World) {
    let anna = person("anna");
    let held = world.session(&anna).await;
    let stored = put(&world.artifacts(), (&held, &anna), &rows(5_000, 200)).await.expect("it is stored");
    let here = world.place.names().await;
    let hour: u64 =
        here[0].split('/').nth(1).and_then(|hour| hour.parse().ok()).expect("the hour of its end");
    // A name that ends in the hour that is not over is spared, be it known to a session or not.
    let spared =
        [format!("artifacts/{}/t/s/o", hour - 25), "artifacts/notes/t".to_owned(), "other/1/t".to_owned()];
    let over = [format!("artifacts/{}/t/s/o", hour - 28), "artifacts/7/t/s/o".to_owned()];
    for name in spared.iter().chain(&over) {
        world.place.write(name, "x".to_owned()).await;
    }
    let turn = Duration::from_secs(600);
    assert_eq!(world.artifacts().sweep(turn).await.expect("it sweeps"), Some(2));
    let mut left: Vec<_> = here.iter().chain(&spared).cloned().collect();
    let mut there = world.place.names().await;
    left.sort();
    there.sort();
    assert_eq!(there, left);
    assert!(read(&world, (&held, &anna), &stored, 4_999).await.is_ok());
    world.place.write(&over[0], "x".to_owned()).await;
    assert_eq!(world.artifacts().sweep(turn).await.expect("it is another's turn"), None);
    assert_eq!(world.artifacts().sweep(turn).await.expect("it is another's turn"), None);
}

/// An S3 that is not there.
fn nowhere() -> Json {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", free.local_addr().expect("an address"));
    json!({ "store": "s3://bucket", "endpoint": endpoint, "access_key": "hiddenid", "secret_key": "hidden" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_object_store_is_away_small_results_are_kept_and_larger_ones_can_be_tried_again() {
    let config = serde_json::from_value(json!({ "artifacts": nowhere() })).expect("a configuration");
    let store = memory_store();
    let artifacts = house::artifacts(&config, store.clone()).expect("it can be used");
    let anna = person("anna");
    let held = opened(&pod(&store), &anna, "x", &[seed("tracker", "Issue")]).await.held;
    let small = put(&artifacts, (&held, &anna), &rows(3, 3)).await.expect("it is stored");
    let large = put(&artifacts, (&held, &anna), &rows(5_000, 200)).await.expect_err("it cannot be");
    let fault = Fault::from(large);
    assert!(fault.code == "state_store_unavailable" && fault.retryable, "{fault:?}");
    assert!(!format!("{fault:?}").contains("hidden"));
    assert!(artifacts.read(&held, &anna, &Which::Number(small.n), &Wanted::default()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_starts_without_its_object_store_and_says_so() {
    let gateway = Gateway::start(json!({ "demo": true, "artifacts": nowhere() }));
    gateway.still_serves().await;
    crate::harness::comes_true("it warns", || async { gateway.log().contains("the object store is away") })
        .await;
    assert!(!gateway.log().contains("hidden"), "{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "artifacts.store: ")]
async fn a_gateway_does_not_start_with_a_folder_that_is_not_there() {
    Gateway::start(json!({ "demo": true, "artifacts": { "store": "file:///nowhere/that/is" } }));
}
