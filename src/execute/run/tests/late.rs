//! A run that has no more time gives back what is finished, and where the rest begins.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn soon() -> RunSettings {
    RunSettings::new("run-1", Duration::from_millis(40))
}

#[tokio::test]
async fn finished_roots_come_and_the_rest_can_be_run_again() {
    let answers = json!([
        { "op": "type_get", "rows": [{ "name": "fire", "id": 10 }] },
        { "op": "pokemon_get", "rows": [{ "name": "pikachu", "height": 4 }] },
    ]);
    let program = "Pokemon(\"pikachu\")[height], Type(\"fire\")[id]";
    let world = Arc::new(World { silent: vec!["pokemon_get"], ..World::new(&answers) });
    let finished = run_with(program, &world, soon()).await;
    assert_eq!(finished.failed, None);
    assert_eq!(rows(&finished, 1), json!([[10]]));
    assert_eq!(finished.roots.len(), 1);
    assert_eq!(finished.rest, Some(Cursor { roots: vec![0], read: None }));

    let world = Arc::new(World::new(&answers));
    let again = run_with(program, &world, RunSettings { from: finished.rest, ..settings() }).await;
    assert_eq!(rows(&again, 0), json!([[4]]));
    assert_eq!(
        world.asked(),
        ["pokemon_get key={\"name\":\"pikachu\"}"],
        "what is finished is not read again"
    );
}

/// Its second page never comes.
struct Slow(World);

impl Sources for Slow {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        match ask.page {
            Some(_) => std::future::pending().boxed(),
            None => self.0.ask(ask),
        }
    }
}

#[tokio::test]
async fn the_pages_that_came_are_given_and_the_next_run_begins_after_them() {
    let answers = json!([
        { "op": "issue_list", "rows": [{ "id": "1", "score": 1 }, { "id": "2", "score": 0 }], "next": "b" },
        { "op": "issue_list", "page": "b", "rows": [{ "id": "3", "score": 2 }] },
    ]);
    let program = "Issue | filter(project = \"p\", score > 0)[id]";
    let slow = Arc::new(Slow(World::new(&answers)));
    let finished = run(planned(program), catalogs(), slow, scripted::caller(), soon()).await;
    assert_eq!(rows(&finished, 0), json!([["1"]]));
    assert_eq!(finished.roots[0].coverage, Covered::Partial);
    let from = finished.roots[0].next.clone();
    assert!(from.is_some());
    let world = Arc::new(World::new(&answers));
    let again = run_with(program, &world, RunSettings { from, ..settings() }).await;
    assert_eq!(rows(&again, 0), json!([["3"]]));
    assert_eq!(again.roots[0].next, None);
}

#[tokio::test]
async fn an_order_over_part_of_the_rows_is_no_result() {
    let answers = json!([{ "op": "issue_list", "rows": [{ "id": "1", "score": 1 }], "next": "b" }]);
    for after in ["| sort(score)[id]", "| aggregate(n = count())", "| distinct(id)[id]", "| singleton()[id]"]
    {
        let program = format!("Issue | filter(project = \"p\") {after}");
        let slow = Arc::new(Slow(World::new(&answers)));
        let finished = run(planned(&program), catalogs(), slow, scripted::caller(), soon()).await;
        assert!(finished.roots.is_empty() && finished.failed.is_none(), "{after}: {finished:?}");
        assert_eq!(finished.rest, Some(Cursor { roots: vec![0], read: None }));
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_gives_its_requests_up() {
    struct Held(Arc<AtomicBool>, Arc<tokio::sync::Notify>);
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    impl Sources for Held {
        fn ask(&self, _: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
            let (gone, asked) = (Gone(Arc::clone(&self.0)), Arc::clone(&self.1));
            async move {
                let _gone = gone;
                asked.notify_one();
                std::future::pending().await
            }
            .boxed()
        }
    }
    let (gone, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
    let held = Arc::new(Held(Arc::clone(&gone), Arc::clone(&asked)));
    let mut run =
        Box::pin(run(planned("Type(\"fire\")[id]"), catalogs(), held, scripted::caller(), settings()));
    tokio::select! {
        _ = &mut run => panic!("it cannot end"),
        () = asked.notified() => {}
    }
    assert!(!gone.load(Ordering::SeqCst));
    drop(run);
    assert!(gone.load(Ordering::SeqCst));
}
