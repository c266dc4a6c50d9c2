//! Pages, and where they stop; fields that are fetched; what fails.

use proptest::prelude::*;
use tokio::sync::Barrier;

use super::*;

/// Pages of issues whose scores are given, so many a page.
fn paged(scores: &[i64], size: usize) -> World {
    let pages: Vec<&[i64]> = scores.chunks(size).collect();
    let mut id = 0;
    let answers: Vec<Json> = pages
        .iter()
        .enumerate()
        .map(|(page, scores)| {
            let mut row = |score: &i64| {
                id += 1;
                json!({ "id": id.to_string(), "score": score })
            };
            let rows: Vec<Json> = scores.iter().map(&mut row).collect();
            let name = (page > 0).then(|| page.to_string());
            let next = (page + 1 < pages.len()).then(|| (page + 1).to_string());
            json!({ "op": "issue_list", "page": name, "rows": rows, "next": next })
        })
        .collect();
    World::new(&Json::Array(answers))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn limited_runs_one_after_another_bring_each_row_once(
        scores in prop::collection::vec(0..4_i64, 1..40), size in 1..7_usize, limit in 1..9_usize
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let program = format!("Issue | filter(project = \"p\", score > 0) | limit({limit})[id]");
        let want: Vec<Json> = scores
            .iter()
            .enumerate()
            .filter(|(_, score)| **score > 0)
            .map(|(index, _)| json!([(index + 1).to_string()]))
            .collect();
        let (mut found, mut from) = (Vec::new(), None);
        for turn in 0.. {
            prop_assert!(turn <= want.len() / limit + 1, "it does not end");
            let world = Arc::new(paged(&scores, size));
            let finished =
                runtime.block_on(run_with(&program, &world, RunSettings { from: from.take(), ..settings() }));
            prop_assert_eq!(code(&finished), "");
            let got = rows(&finished, 0);
            let got = got.as_array().unwrap();
            prop_assert!(got.len() <= limit);
            found.extend(got.iter().cloned());
            // No page is asked for beyond the one with the last row that is wanted.
            let wanted = found.last().and_then(|row| row[0].as_str()).map_or(0, |id| id.parse::<usize>().unwrap());
            if got.len() == limit {
                let last = world.asked().last().cloned().unwrap();
                let page = (wanted - 1) / size;
                prop_assert!(page == 0 || last.ends_with(&format!("page={page}")), "{last}");
            }
            from = finished.roots[0].next.clone();
            if from.is_none() {
                break;
            }
            prop_assert_eq!(finished.roots[0].coverage, Covered::Partial);
        }
        prop_assert_eq!(found, want);
    }
}

#[tokio::test]
async fn reads_of_one_program_run_beside_each_other() {
    /// Answers none until two ask.
    struct Both(Arc<Barrier>);
    impl Sources for Both {
        fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
            let both = Arc::clone(&self.0);
            async move {
                both.wait().await;
                Ok(Page { rows: vec![Json::Object(ask.key)], ..Page::default() })
            }
            .boxed()
        }
    }
    let plan = planned("Type(\"fire\")[name], Pokemon(\"pikachu\")[name]");
    let both = Arc::new(Both(Arc::new(Barrier::new(2))));
    let finished = run(plan, catalogs(), both, scripted::caller(), settings()).await;
    assert_eq!((finished.roots.len(), finished.requests), (2, 2));
}

#[tokio::test]
async fn a_count_over_part_of_the_rows_is_an_error_unless_the_part_was_chosen() {
    // A source that leads back to its first page never gives all.
    let world = || {
        Arc::new(World::new(&json!([
            { "op": "issue_list", "rows": [{ "id": "1" }], "next": "a" },
            { "op": "issue_list", "page": "a", "rows": [{ "id": "2" }], "next": "a" },
        ])))
    };
    let read = "Issue | filter(project = \"p\")";
    let finished = ran(&format!("{read} | aggregate(n = count())"), &world()).await;
    assert_eq!(code(&finished), "partial_coverage");
    let finished = ran(&format!("{read} | limit(2) | aggregate(n = count())"), &world()).await;
    assert_eq!(rows(&finished, 0), json!([[2]]));
    assert_eq!(finished.roots[0].coverage, Covered::Partial);
}

#[tokio::test]
async fn a_condition_on_a_fetched_field_fetches_until_there_are_enough() {
    let mut answers = vec![
        json!({ "op": "pokemon_list", "rows": (0..40).map(|n| json!({ "name": format!("p{n}") })).collect::<Vec<_>>() }),
    ];
    answers.extend((0..40).map(|n| {
        let name = format!("p{n}");
        json!({ "op": "pokemon_get", "key": { "name": name }, "rows": [{ "name": name, "height": n }] })
    }));
    let world = Arc::new(World::new(&Json::Array(answers)));
    let finished = ran("Pokemon | filter(height >= 3) | limit(2)[name, height]", &world).await;
    assert_eq!(rows(&finished, 0), json!([["p3", 3], ["p4", 4]]));
    assert_eq!(finished.requests, 9, "one chunk of rows is fetched, and no more");
    assert!(finished.roots[0].next.is_some());
}

#[tokio::test]
async fn a_row_that_is_gone_when_its_fields_are_fetched_keeps_nulls_and_is_told() {
    let world = Arc::new(World::new(&json!([
        { "op": "type_list", "rows": [{ "name": "a" }, { "name": "b" }] },
        { "op": "type_get", "key": { "name": "a" }, "error": "not_found" },
        { "op": "type_get", "key": { "name": "b" }, "rows": [{ "name": "b", "id": 2 }] },
    ])));
    let finished = ran("Type | limit(2)[name, id]", &world).await;
    assert_eq!(rows(&finished, 0), json!([["a", null], ["b", 2]]));
    assert_eq!(finished.warnings.len(), 1, "{:?}", finished.warnings);
}

#[tokio::test]
async fn what_fails_leaves_the_rest_and_says_where() {
    for (error, want) in [
        ("auth", "upstream_auth"),
        ("rate", "upstream_rate"),
        ("timeout", "upstream_timeout"),
        ("other", "upstream_status"),
    ] {
        let world = Arc::new(World::new(&json!([
            { "op": "type_list", "error": error },
            { "op": "pokemon_get", "rows": [{ "name": "pikachu", "height": 4 }] },
        ])));
        let finished = ran("t = Type | limit(2)\nt[name], Pokemon(\"pikachu\")[height]", &world).await;
        assert_eq!(code(&finished), want);
        assert_eq!(finished.failed.as_ref().unwrap().node, 0);
        assert_eq!(finished.roots.iter().map(|root| root.root).collect::<Vec<_>>(), [1]);
        assert_eq!(rows(&finished, 1), json!([[4]]));
    }
}

#[tokio::test]
async fn rows_beyond_what_a_run_holds_are_too_large() {
    let body = "x".repeat(9 << 20);
    let rows: Vec<Json> = (0..8).map(|id| json!({ "id": id, "title": body })).collect();
    let world = Arc::new(World::new(&json!([{ "op": "issue_list", "rows": rows }])));
    assert_eq!(code(&ran("Issue | filter(project = \"p\")[id]", &world).await), "too_large");
}

/// One issue with a title of so many MiB.
fn titled(mebibytes: usize) -> Arc<World> {
    let row = json!({ "id": "1", "title": "x".repeat(mebibytes << 20) });
    Arc::new(World::new(&json!([{ "op": "issue_list", "rows": [row] }])))
}

fn roots(finished: &Finished) -> Vec<usize> {
    finished.roots.iter().map(|root| root.root).collect()
}

#[tokio::test]
async fn a_column_under_many_names_is_too_large_and_other_roots_are_told() {
    let named = |of: &str| (0..20).map(|name| format!("{of}{name}")).collect::<Vec<_>>().join(", ");
    let read = "rows = Issue | filter(project = \"p\")\n";
    let columns = named("title as a");
    let finished = ran(&format!("{read}rows[{columns}], rows[id]"), &titled(4)).await;
    assert_eq!((code(&finished), roots(&finished)), ("too_large", vec![1]));
    let finished =
        ran(&format!("{read}rows[{columns}] | render <<T\n{{{{ rows|length }}}}\nT\n"), &titled(4)).await;
    assert_eq!((code(&finished), roots(&finished)), ("too_large", vec![]));
    let greatest = (0..20).map(|name| format!("a{name} = max(title)")).collect::<Vec<_>>().join(", ");
    let finished = ran(&format!("{read}rows | aggregate({greatest}), rows[id]"), &titled(4)).await;
    assert_eq!((code(&finished), roots(&finished)), ("too_large", vec![1]));
}

#[tokio::test]
async fn the_same_rows_as_many_roots_are_told_until_they_are_too_large() {
    let read = "rows = Issue | filter(project = \"p\")[id, title]\n";
    let finished = ran(&format!("{read}rows, rows, rows, rows, rows, rows[id]"), &titled(16)).await;
    assert_eq!((code(&finished), roots(&finished)), ("too_large", vec![0, 1, 2, 5]));
    let failed = finished.failed.as_ref().map(|failed| failed.fault.message.as_str());
    assert_eq!(failed, Some("the results of one run have more than 64 MiB"));
}

#[tokio::test]
async fn rows_that_one_request_brings_for_many_are_counted_for_each() {
    let issue = json!({ "id": "1", "title": "x".repeat(8 << 20) });
    let of = |projects: usize| {
        Arc::new(World::new(&json!([
            { "op": "project_list", "rows": vec![json!({ "id": "p" }); projects] },
            { "op": "issue_list", "rows": [issue.clone()] },
        ])))
    };
    let program = "projects = Project\nprojects.issues[id]";
    let finished = ran(program, &of(3)).await;
    assert_eq!((rows(&finished, 0), finished.requests), (json!([["1"], ["1"], ["1"]]), 2));
    assert_eq!(code(&ran(program, &of(9)).await), "too_large");
}

#[tokio::test]
async fn a_plan_of_other_catalogs_is_not_run() {
    let world = Arc::new(World::new(&json!([])));
    let mut plan = (*planned("Type | limit(1)")).clone();
    plan.catalogs.insert("pokeapi".to_owned(), "other".to_owned());
    let finished = run(Arc::new(plan), catalogs(), world.clone(), scripted::caller(), settings()).await;
    assert_eq!(code(&finished), "plan_changed");
    assert!(world.asked().is_empty());
}

#[tokio::test]
async fn progress_is_told_at_each_request_and_step() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    let progress: Tell = Arc::new(move |progress| to.lock().unwrap().push(progress));
    let world = Arc::new(paged(&[1, 2, 3], 1));
    let program = "Issue | filter(project = \"p\")[id]";
    run_with(program, &world, RunSettings { progress: Some(progress), ..settings() }).await;
    let told = told.lock().unwrap();
    assert_eq!(*told.last().unwrap(), Progress { requests: 3, rows: 3, steps: 2, of_steps: 2 });
    assert!(told.windows(2).all(|two| two[0].requests <= two[1].requests && two[0].steps <= two[1].steps));
}

#[tokio::test]
async fn requests_that_were_given_up_hold_no_place() {
    // Three fetches fail at their first row, each with seven requests behind it that never end: more than there are places.
    struct Stuck;
    impl Sources for Stuck {
        fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
            async move {
                tokio::task::yield_now().await;
                let part = ask.key.values().next().and_then(Json::as_str).unwrap_or_default();
                let rows = || (0..8).map(|n| json!({ "name": n.to_string(), "id": n.to_string() })).collect();
                match (&*ask.operation, part) {
                    ("type_list" | "pokemon_list" | "issue_list", _) => {
                        Ok(Page { rows: rows(), ..Page::default() })
                    }
                    ("project_get", _) => Ok(Page { rows: vec![json!({ "title": "P" })], ..Page::default() }),
                    ("issue_get", "x") => {
                        Ok(Page { rows: vec![json!({ "project_id": "p1" })], ..Page::default() })
                    }
                    (_, "0") => Err(SourceError {
                        kind: SourceErrorKind::Status,
                        message: "no".to_owned(),
                        uncertain: false,
                    }),
                    _ => std::future::pending().await,
                }
            }
            .boxed()
        }
    }
    let program = "a = Type | limit(8)
b = Pokemon | limit(8)
c = Issue | filter(project = \"p\") | limit(8)
a[id], b[height], c[body], Issue(\"x\").parent_project[title]";
    let soon = RunSettings::new("run-1", Duration::from_secs(3));
    let finished = run(planned(program), catalogs(), Arc::new(Stuck), scripted::caller(), soon).await;
    assert_eq!(code(&finished), "upstream_status");
    assert_eq!(rows(&finished, 3), json!([["P"]]));
}
