//! Errors of programs, as the surface's tools tell them.

use super::*;

const REJECTED: &str = include_str!("../../../../tests/language/rejected.jsonl");

#[tokio::test]
async fn each_rejected_program_is_told_with_its_code_its_place_and_a_hint_by_both_tools() {
    let (surface, world) = surface(Globs::default());
    let who = somebody("a");
    let handle = session_over(&surface, &who, SEEDS).await;
    let mut fixed = 0;
    for line in REJECTED.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        for tool in [tools::PLAN, tools::RUN] {
            let ask = json!({"logical_session_ref": handle, "program": case["program"]});
            let told = asked(&surface, &who, tool, ask).await;
            let error = &told["structuredContent"]["error"];
            let (code, text) = (error["code"].as_str().unwrap(), said(&told));
            assert_eq!((&told["isError"], &error["code"]), (&json!(true), &case["code"]), "{line}: {text}");
            let (line, col) = (error["line"].as_u64().unwrap(), error["col"].as_u64().unwrap());
            assert!(text.starts_with(&format!("error[{code}] at {line}:{col}: ")), "{text}");
            assert!(text.contains(error["hint"].as_str().unwrap()) && error["retryable"] == false);
            if let Some(fix) = error["fix"].as_str() {
                assert!(text.ends_with(&format!("write:\n{fix}")), "{text}");
                let ask = json!({"logical_session_ref": handle, "program": fix});
                let taken = asked(&surface, &who, tools::PLAN, ask).await;
                assert_ne!(taken["isError"], true, "{fix}: {}", said(&taken));
                fixed += 1;
            }
        }
    }
    assert!(fixed > 20, "{fixed} corrections were tried");
    assert!(world.asked.load(Ordering::SeqCst) == 0, "no source is asked for a program that is wrong");
}
