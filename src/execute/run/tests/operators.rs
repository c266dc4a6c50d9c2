//! What is computed here, held against the plainest way to compute it.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

/// Issues with few different values, so that there are ties, groups and nulls.
fn issues() -> impl Strategy<Value = Vec<(Option<i64>, Option<u8>)>> {
    prop::collection::vec((prop::option::of(-2..3_i64), prop::option::of(0..3_u8)), 0..40)
}

fn world(issues: &[(Option<i64>, Option<u8>)]) -> Arc<World> {
    let row = |(id, (score, owner)): (usize, &(Option<i64>, Option<u8>))| {
        let login = owner.map(|owner| format!("o{owner}"));
        json!({ "id": id.to_string(), "score": score, "assignee": { "login": login } })
    };
    let rows: Vec<Json> = issues.iter().enumerate().map(row).collect();
    Arc::new(World::new(&json!([{ "op": "issue_list", "rows": rows }])))
}

fn of(program: &str, issues: &[(Option<i64>, Option<u8>)]) -> Json {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let program = format!("Issue | filter(project = \"p\") {program}");
    let finished = runtime.block_on(ran(&program, &world(issues)));
    assert_eq!(code(&finished), "", "{finished:?}");
    rows(&finished, 0)
}

fn ids(rows: impl IntoIterator<Item = usize>) -> Json {
    rows.into_iter().map(|id| json!([id.to_string()])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_filter_keeps_the_rows_of_which_it_is_true(issues in issues()) {
        // Three values of truth: what compares with null is neither.
        let judge = |(score, owner): &(Option<i64>, Option<u8>)| {
            let high = score.map(|score| score > 0);
            let mine = owner.map(|owner| owner == 1);
            let either = match (high, mine) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            either.map(|either| !either) == Some(true)
        };
        let want = issues.iter().enumerate().filter(|(_, issue)| judge(issue)).map(|(id, _)| id);
        prop_assert_eq!(of("| filter(not (score > 0 or owner = \"o1\"))[id]", &issues), ids(want));
        let none = issues.iter().enumerate().filter(|(_, issue)| issue.0.is_none()).map(|(id, _)| id);
        prop_assert_eq!(of("| filter(score is null)[id]", &issues), ids(none));
    }

    #[test]
    fn an_order_is_stable_and_has_nulls_last(issues in issues()) {
        for (direction, desc) in [("desc", true), ("asc", false)] {
            let mut want: Vec<usize> = (0..issues.len()).collect();
            want.sort_by(|a, b| match (issues[*a].0, issues[*b].0) {
                (Some(a), Some(b)) if desc => b.cmp(&a),
                (Some(a), Some(b)) => a.cmp(&b),
                (None, None) => Ordering::Equal,
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            });
            prop_assert_eq!(of(&format!("| sort(score {direction})[id]"), &issues), ids(want.clone()));
            want.truncate(3);
            prop_assert_eq!(of(&format!("| sort(score {direction}) | limit(3)[id]"), &issues), ids(want));
        }
    }

    #[test]
    fn groups_have_each_row_once_and_sums_leave_out_nulls(issues in issues()) {
        let mut groups: Vec<(Option<u8>, Vec<Option<i64>>)> = Vec::new();
        for (score, owner) in &issues {
            match groups.iter_mut().find(|(have, _)| have == owner) {
                Some((_, scores)) => scores.push(*score),
                None => groups.push((*owner, vec![*score])),
            }
        }
        let want: Json = groups
            .iter()
            .map(|(owner, scores)| {
                let known: Vec<i64> = scores.iter().flatten().copied().collect();
                let sum = (!known.is_empty()).then(|| known.iter().sum::<i64>());
                let name = owner.map(|owner| format!("o{owner}"));
                json!([name, scores.len(), sum, known.iter().min(), known.iter().max()])
            })
            .collect();
        let program = "| group_by(owner, n = count(), s = sum(score), low = min(score), top = max(score))";
        prop_assert_eq!(of(program, &issues), want);
        let distinct: Json = groups
            .iter()
            .map(|(owner, _)| json!([owner.map(|owner| format!("o{owner}"))]))
            .collect();
        prop_assert_eq!(of("| distinct(owner)[owner]", &issues), distinct);
        prop_assert_eq!(of("| aggregate(n = count())", &issues), json!([[issues.len()]]));
    }
}

#[tokio::test]
async fn values_of_other_types_are_read_where_they_can_be_and_named_where_not() {
    let world = Arc::new(World::new(&json!([{ "op": "issue_list", "rows": [
        { "id": 1, "score": "7", "updated_at": "2026-11-30T01:00:00+02:00", "title": true },
        { "id": "2", "score": 7.0, "updated_at": "yesterday" },
    ] }])));
    let finished = ran("Issue | filter(project = \"p\")[id, score, updated_at, title]", &world).await;
    let want = json!([["1", 7, "2026-11-29T23:00:00Z", "true"], ["2", 7, "yesterday", null]]);
    assert_eq!(rows(&finished, 0), want);
    assert_eq!(finished.roots[0].lossy, ["updated_at"]);
}

#[tokio::test]
async fn instants_compare_as_instants_and_texts_without_case() {
    let world = Arc::new(World::new(&json!([{ "op": "issue_list", "rows": [
        { "id": "1", "title": "The LOGIN page", "updated_at": "2026-11-30T12:00:00.5Z" },
        { "id": "2", "title": "logout", "updated_at": "2026-11-30T12:00:00Z" },
        { "id": "3", "title": "Log in", "updated_at": "2026-11-30T13:30:00+02:00" },
    ] }])));
    let program = "rows = Issue | filter(project = \"p\")
rows | filter(updated_at > now())[id], rows | filter(updated_at <= now())[id], rows | filter(title ~ \"login\")[id], \
         rows | filter(id in [\"3\", \"1\"])[id], rows | sort(updated_at)[id]";
    let finished = ran(program, &world).await;
    let want = [
        json!([["1"]]),
        json!([["2"], ["3"]]),
        json!([["1"]]),
        json!([["1"], ["3"]]),
        json!([["3"], ["2"], ["1"]]),
    ];
    for (root, want) in want.iter().enumerate() {
        assert_eq!(rows(&finished, root), *want, "root {root}");
    }
}

#[tokio::test]
async fn a_singleton_is_checked_as_it_runs() {
    let rows_of = |ids: &[&str]| {
        let rows: Vec<Json> = ids.iter().map(|id| json!({ "id": id })).collect();
        Arc::new(World::new(&json!([{ "op": "issue_list", "rows": rows }])))
    };
    let program = "Issue | filter(project = \"p\") | singleton()[id]";
    assert_eq!(rows(&ran(program, &rows_of(&["1"])).await, 0), json!([["1"]]));
    for ids in [vec![], vec!["1", "2"]] {
        assert_eq!(code(&ran(program, &rows_of(&ids)).await), "not_one");
    }
}

#[tokio::test]
async fn a_template_sees_rows_alone_and_is_bounded() {
    let world =
        Arc::new(World::new(&json!([{ "op": "type_list", "rows": [{ "name": "a" }, { "name": "b" }] }])));
    let render = |template: &str| format!("Type | render <<T\n{template}\nT\n");
    let text = ran(
        &render("{% for r in rows %}{{ loop.index }}{{ r.name }}{{ r.name|upper }} {% endfor %}"),
        &world,
    )
    .await;
    assert_eq!(rows(&text, 0), json!("1aA 2bB "));
    for (template, want) in [
        ("{{ rows[0].nope }}", "template"),
        ("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", "too_large"),
        (
            "{% for a in range(90000) %}{{ rows[0].name }}{{ rows[0].name }}{{ rows[0].name }}{% endfor %}",
            "too_large",
        ),
        ("{{ rows|map(attribute='name')|join('x')|nothing }}", "template"),
    ] {
        assert_eq!(code(&ran(&render(template), &world).await), want, "{template}");
    }
}

/// The figure of docs/execute.md: `cargo test --release -- --ignored --nocapture ten_thousand`.
#[tokio::test]
#[ignore = "prints a figure"]
async fn ten_thousand_rows() {
    let row = |id: u64| {
        let mixed = id.wrapping_mul(2_654_435_761) % 10_007;
        json!({ "id": id.to_string(), "title": format!("issue {mixed}"), "state": "open", "score": mixed,
                "assignee": { "login": format!("o{}", mixed % 50) }, "updated_at": "2026-11-30T01:00:00+02:00", "project_id": "p" })
    };
    let rows_of: Vec<Json> = (0..10_000).map(row).collect();
    let world = Arc::new(World::new(&json!([{ "op": "issue_list", "rows": rows_of.clone() }])));
    let began = std::time::Instant::now();
    drop(std::hint::black_box(rows_of.clone()));
    println!(
        "the test source's own copy of its rows, in each: {:.2} ms",
        began.elapsed().as_secs_f64() * 1e3
    );
    let (catalogs, read) = (catalogs(), "Issue | filter(project = \"p\"");
    for (what, program) in [
        ("read", format!("{read}) | aggregate(n = count())")),
        ("read, filter", format!("{read}, score > 5000 and title ~ \"7\") | aggregate(n = count())")),
        ("read, sort", format!("{read}) | sort(updated_at, score desc) | limit(10)[id]")),
        ("read, group", format!("{read}) | group_by(owner, n = count(), s = sum(score), top = max(score))")),
        (
            "read, filter, sort, group",
            format!(
                "{read}, score > 5000) | sort(score desc, id) | group_by(owner, n = count(), s = sum(score)) | sort(s desc) | limit(10)"
            ),
        ),
    ] {
        let plan = planned(&program);
        let mut best = Duration::MAX;
        for _ in 0..9 {
            let began = std::time::Instant::now();
            let finished =
                run(plan.clone(), catalogs.clone(), world.clone(), scripted::caller(), settings()).await;
            best = best.min(began.elapsed());
            assert_eq!(code(&finished), "");
        }
        println!("{what}: {:.2} ms", best.as_secs_f64() * 1e3);
    }
}
