//! Programs and arguments that nobody means well with: each is refused in time, and the pod serves on.

use std::time::Instant;

use super::*;

/// Far more than any of these takes, on a busy machine and unoptimised; each once took longer, or would where work grows with
/// the square of a program.
const IN_TIME: Duration = Duration::from_secs(10);

async fn attacked(pod: &Pod, who: &Arc<Caller>, tool: &str, what: &str, ask: Json) -> Json {
    let begun = Instant::now();
    let asked = tokio::time::timeout(IN_TIME, pod.ask(who, tool, ask));
    let told = asked.await.unwrap_or_else(|_| panic!("{what} takes longer than {IN_TIME:?}"));
    println!("{tool} {what}: {} in {:?}", code(&told), begun.elapsed());
    told
}

/// A piece, as often as it fits into a program beside what is around it.
fn full(before: &str, piece: &dyn Fn(usize) -> String, after: &str, bytes: usize) -> String {
    let mut text = before.to_owned();
    for n in 0.. {
        let piece = piece(n);
        if text.len() + piece.len() + after.len() > bytes {
            break;
        }
        text += &piece;
    }
    text + after
}

/// Programs that would cost most where something grows faster than they do.
fn programs(bytes: usize) -> Vec<(&'static str, String)> {
    let all = |what, before: &str, piece: &'static str, after: &str| {
        (what, full(before, &|_| piece.to_owned(), after, bytes))
    };
    let numbered = |what, before: &str, piece: &dyn Fn(usize) -> String, after: &str| {
        (what, full(before, piece, after, bytes))
    };
    let rows = "Project(\"p\").issues";
    let in_filter = format!("{rows} | filter(");
    vec![
        all("one word", "", "a", ""),
        all("brackets", "", "(", ""),
        all("an open text", "Project(\"", "x", ""),
        all("an open heredoc", "Project(<<A\n", "x\n", ""),
        all("lines", "", "\n", ""),
        all("comments", "", "# no\n", ""),
        all("a key", "Project(\"", "x", "\")"),
        all("escapes", "Project(\"", "\\u0041", "\")"),
        all("stages", rows, "|limit(1)", ""),
        all("sorts", rows, "|sort(score)", ""),
        all("hops", "Issue(\"i\")", ".parent_project.issues", ""),
        all("roots", "a = Project(\"p\")\n", "a , ", "a"),
        all("not", &in_filter, "not ", "score > 1)"),
        all("minus", &format!("{rows} | limit("), "-", "1)"),
        all("digits", &format!("{rows} | limit("), "9", ")"),
        all("open lists", &format!("{in_filter}id in "), "[", ""),
        all("a path", "Issue(\"i\")[id", ".id", "]"),
        all("members of a list", &format!("{in_filter}id in ["), "\"a\",", "\"b\"])"),
        all("unknown words", "", "Isue\n", "Issue"),
        numbered("conditions", &in_filter, &|n| format!("score > {n} or "), "score > 1)"),
        numbered("brackets in brackets", &in_filter, &|n| format!("(score > {n}) and "), "score > 1)"),
        numbered("bindings", "", &|n| format!("a{n} = Project(\"p{n}\")\n"), "a1"),
        numbered("writes", "", &|n| format!("a{n} = Issue(\"{n}\").update(title = \"x\")\n"), "a1"),
        numbered(
            "bindings of bindings",
            "a0 = Project(\"p\").issues\n",
            &|n| format!("a{} = a{n} | limit(9)\n", n + 1),
            "a1",
        ),
        numbered(
            "hops of bindings",
            "a0 = Project(\"p\").issues\n",
            &|n| format!("a{} = a{n}.parent_project.issues\n", n + 1),
            "a9",
        ),
        numbered("columns", "Issue(\"i\")[id as c", &|n| format!(", id as c{n}"), "]"),
        numbered(
            "groups",
            &format!("{rows} | group_by(owner, n = count()"),
            &|n| format!(", s{n} = sum(score)"),
            ")",
        ),
        numbered("templates", "", &|n| format!("t{n} = \"{{{{ rows }}}}\"\n"), "Issue(\"i\")"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_and_deep_programs_are_judged_and_run_in_time() {
    let (redis, world) = (Server::start(&[]), World::open());
    let pod = Pod::start(&redis, &world).await;
    let ann = ann();
    let session = pod.session(&ann).await;
    let at = |program: &str| json!({"logical_session_ref": session, "program": program});
    for (what, program) in programs(1 << 20) {
        let told = attacked(&pod, &ann, "plasm", what, at(&program)).await;
        assert_eq!(code(&told), "syntax", "a program has 64 KiB at most");
    }
    let mut good = Vec::new();
    for (what, program) in programs(64 << 10) {
        let told = attacked(&pod, &ann, "plasm", what, at(&program)).await;
        assert!(told.to_string().len() < 4 << 20, "{what} is answered at length");
        if code(&told) == "none" {
            good.push((what, program));
        }
    }
    assert_eq!(world.asks(), 0, "no source was asked");
    for (what, program) in good {
        let told = attacked(&pod, &ann, "plasm_run", what, at(&program)).await;
        assert!(told.to_string().len() < 1 << 20, "{what} is answered at length");
    }
    assert_eq!(world.writes(), 0);
    assert_eq!(code(&pod.ask(&ann, "plasm", at(LIST)).await), "none");
}
