use std::{path::Path, sync::Arc};

use object_store::{ObjectStore, ObjectStoreExt as _, local::LocalFileSystem};
use serde_json::{Value as Json, json};

use super::*;
use crate::{
    execute::{
        catalog::load_folder,
        logical::{Logical, Open, Settings},
        symbols::Seed,
    },
    mcp::{Access as Admission, Caller, Principal, scripted},
    store::{Memory, PodId},
};

struct World {
    store: Arc<dyn Store>,
    logical: Logical,
    objects: Arc<LocalFileSystem>,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let store: Arc<dyn Store> = Arc::new(Memory::new(512 << 20));
        let folder = tempfile::tempdir().unwrap();
        let catalogs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs");
        let catalogs = Arc::new(load_folder(&catalogs).unwrap());
        let logical = Logical::new(PodId::random(), Arc::clone(&store), catalogs, Settings::default());
        let objects = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        World { store, logical, objects, folder }
    }

    /// As one more pod would have them.
    fn artifacts(&self) -> Artifacts {
        let objects: Arc<dyn ObjectStore> = Arc::clone(&self.objects) as _;
        Artifacts::new(Arc::clone(&self.store), Some(Objects::new(objects)))
    }

    async fn session(&self, owner: &Owner) -> Arc<Held> {
        let catalogs = self.logical.catalogs();
        let (api, loaded) = catalogs.iter().next().unwrap();
        let entity = loaded.catalog.entities.keys().next().unwrap().to_owned();
        let seeds = [Seed { api: api.to_owned(), entity: entity.to_string() }];
        let ask = Open { intent: "look", seeds: &seeds, given: None, fresh: false };
        self.logical.open(owner, ask).await.unwrap().held
    }

    fn files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
        }
        count(self.folder.path())
    }
}

fn owner(tenant: &str, subject: &str) -> Owner {
    let one = scripted::caller();
    let principal = Arc::new(Principal::minted(tenant, "issuer", subject));
    let caller = Caller {
        access: Arc::new(Admission::open(principal)),
        profile: Arc::clone(&one.profile),
        client: Arc::clone(&one.client),
        version: one.version,
        session: Arc::clone(&one.session),
    };
    Owner::of(&caller, false)
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
        coverage: Covered::Partial,
        next: None,
        lossy: Vec::new(),
    }
}

fn ids(rows: &Rows) -> Vec<u64> {
    rows.rows.iter().map(|row| row[0].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_small_result_is_read_by_both_names_on_another_pod_and_lies_in_the_store() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let stored = world.artifacts().put(&held, &mine, &rows(30, 5), &BTreeSet::new()).await.unwrap();
    assert_eq!(stored.uri, format!("plasm://session/{}/r/1", held.handle));
    for name in [&stored.uri, &stored.canonical_uri] {
        let uri = Uri::parse(name).unwrap();
        assert_eq!(uri.session, held.handle);
        let read = world.artifacts().read(&held, &mine, &uri.which, &Wanted::default()).await.unwrap();
        assert_eq!((ids(&read), read.total), ((0..30).collect(), 30));
        assert_eq!((read.next_offset, read.coverage), (None, Covered::Partial));
    }
    assert_eq!(world.files(), 0);
}

#[tokio::test]
async fn a_large_result_lies_in_the_object_store_and_is_paged_whole_in_its_order() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let stored = world.artifacts().put(&held, &mine, &rows(5_000, 200), &BTreeSet::new()).await.unwrap();
    assert_eq!(world.files(), 1);
    let (mut seen, mut offset) = (Vec::new(), 0);
    loop {
        let wanted = Wanted { columns: Some(vec!["note".into(), "id".into()]), offset, limit: None };
        let read = world.artifacts().read(&held, &mine, &Which::Number(stored.n), &wanted).await.unwrap();
        seen.extend(read.rows.iter().map(|row| row[1].as_u64().unwrap()));
        match read.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(seen, (0..5_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_too_large_or_has_no_place_is_refused_and_nothing_is_left() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let large = world.artifacts().put(&held, &mine, &rows(17, 1 << 20), &BTreeSet::new()).await;
    assert!(matches!(large, Err(ArtifactError::TooLarge)));
    let without = Artifacts::new(Arc::clone(&world.store), None);
    assert!(matches!(
        without.put(&held, &mine, &rows(2, SMALL), &BTreeSet::new()).await,
        Err(ArtifactError::NoObjects)
    ));
    assert_eq!(world.files(), 0);
    let none = world.artifacts().read(&held, &mine, &Which::Number(1), &Wanted::default()).await;
    assert!(matches!(none, Err(ArtifactError::Unknown)));
}

#[tokio::test]
async fn a_foreign_caller_is_told_what_a_stranger_to_the_number_is() {
    let world = World::new();
    let (mine, theirs) = (owner("a", "me"), owner("b", "me"));
    let held = world.session(&mine).await;
    let other = world.session(&theirs).await;
    assert_ne!(held.handle, other.handle);
    let stored = world.artifacts().put(&held, &mine, &rows(1, 1), &BTreeSet::new()).await.unwrap();
    let code = |read: Result<Rows, ArtifactError>| crate::execute::fault::Fault::from(read.unwrap_err());
    let wanted = Wanted::default();
    let artifacts = world.artifacts();
    let unknown = code(artifacts.read(&held, &mine, &Which::Number(9), &wanted).await);
    assert_eq!(unknown.code, "session_unknown");
    let run = Which::run(&stored.run_id).unwrap();
    for which in [Which::Number(stored.n), run] {
        assert_eq!(code(artifacts.read(&held, &theirs, &which, &wanted).await), unknown);
        assert_eq!(code(artifacts.read(&other, &theirs, &which, &wanted).await), unknown);
    }
    assert!(world.logical.load(&theirs, held.handle.as_str()).await.is_err());
}

#[tokio::test]
async fn rows_that_are_not_what_was_stored_are_not_given_out() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let stored = world.artifacts().put(&held, &mine, &rows(5_000, 200), &BTreeSet::new()).await.unwrap();
    let name = {
        use futures_util::StreamExt as _;
        world.objects.list(None).next().await.unwrap().unwrap().location
    };
    let mut bytes = world.objects.get(&name).await.unwrap().bytes().await.unwrap().to_vec();
    let last = bytes.len() - 10;
    bytes[last] = b'y';
    world.objects.put(&name, bytes.into()).await.unwrap();
    let wanted = |offset| Wanted { offset, limit: Some(1), ..Wanted::default() };
    let which = Which::Number(stored.n);
    let artifacts = world.artifacts();
    assert_eq!(ids(&artifacts.read(&held, &mine, &which, &wanted(0)).await.unwrap()), [0]);
    let read = artifacts.read(&held, &mine, &which, &wanted(4_999)).await;
    assert!(matches!(read, Err(ArtifactError::Damaged)));
}

#[tokio::test]
async fn the_oldest_of_a_full_session_gives_way_and_no_number_comes_twice() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let artifacts = world.artifacts();
    for n in 1..=5 {
        let stored = artifacts.put(&held, &mine, &rows(15, 1 << 20), &BTreeSet::new()).await.unwrap();
        assert_eq!(stored.n, n);
    }
    assert_eq!(world.files(), 4);
    let wanted = Wanted { columns: Some(vec!["id".into()]), ..Wanted::default() };
    let read = async |n| artifacts.read(&held, &mine, &Which::Number(n), &wanted).await;
    assert!(matches!(read(1).await, Err(ArtifactError::Unknown)));
    assert_eq!(read(2).await.unwrap().rows.len(), 15);
}

#[tokio::test]
async fn many_who_store_at_once_have_a_number_each() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let one = rows(3, 3);
    let puts = (0..8)
        .map(|_| async { world.artifacts().put(&held, &mine, &one, &BTreeSet::new()).await.unwrap().n });
    let mut numbers = futures_util::future::join_all(puts).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn objects_go_when_their_time_is_over_and_one_pod_sweeps_at_a_time() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let artifacts = world.artifacts();
    artifacts.put(&held, &mine, &rows(5_000, 200), &BTreeSet::new()).await.unwrap();
    let turn = std::time::Duration::from_secs(600);
    assert_eq!(artifacts.sweep(turn).await.unwrap(), Some(0));
    assert_eq!(world.artifacts().sweep(turn).await.unwrap(), None, "the turn is another's for a while");
    let objects = Objects::new(Arc::clone(&world.objects) as _);
    let day_after = unix_ms() / 3_600_000 + 27;
    assert_eq!(objects.sweep_as_of(day_after).await, 1);
    assert_eq!(world.files(), 0);
}

#[tokio::test]
async fn an_unknown_column_is_told_with_those_there_are() {
    let world = World::new();
    let mine = owner("a", "me");
    let held = world.session(&mine).await;
    let stored = world.artifacts().put(&held, &mine, &rows(1, 1), &BTreeSet::new()).await.unwrap();
    let wanted = Wanted { columns: Some(vec!["name".into()]), ..Wanted::default() };
    let read = world.artifacts().read(&held, &mine, &Which::Number(stored.n), &wanted).await;
    assert!(read.unwrap_err().to_string().contains("id, note"));
}

#[test]
fn only_uris_as_they_are_written_are_read() {
    let handle = format!("l_{}", "a".repeat(26));
    for text in [
        format!("plasm://session/{handle}/r/01"),
        format!("plasm://session/{handle}/r/-1"),
        format!("plasm://session/{handle}/r/1?x"),
        format!("plasm://session/{handle}/run/1"),
        format!("plasm://execute/{handle}/run/../x"),
        "plasm://session/l_x/r/1".into(),
        format!("PLASM://session/{handle}/r/1"),
    ] {
        assert!(Uri::parse(&text).is_none(), "{text}");
    }
    assert!(Uri::parse(&format!("plasm://session/{handle}/r/1")).is_some());
}
