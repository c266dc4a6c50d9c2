//! What counts as JSON, and where its parts lie.

use super::*;

#[test]
fn what_serde_json_accepts_we_accept_and_nothing_else() {
    let cases = [
        "{}",
        "[]",
        "null",
        "true",
        " 1 ",
        "-0",
        "-0.0e+1",
        "1E5",
        "\"\"",
        "\"\\u00e9\\n\"",
        "[1,[2,{\"a\":null}]]",
        "{\"a\":1,\"b\":[{}]}",
        "",
        "{",
        "}",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "1e",
        "+1",
        "nul",
        "truex",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"abc",
        "{1:2}",
        "[1 2]",
        "1 2",
        "\u{feff}1",
        "'a'",
        "NaN",
        "[[[]]]",
        "[[]",
        "{\"a\":{}",
        "-",
        "\"\\\"",
        "\"a\nb\"",
    ];
    for case in cases {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(case).is_ok();
        assert_eq!(check(case.as_bytes(), 128).is_ok(), theirs, "{case:?}");
    }
}

#[test]
fn depth_is_bounded_and_no_depth_overflows_the_stack() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(check(deep(128).as_bytes(), 128).is_ok());
    assert_eq!(check(deep(129).as_bytes(), 128), Err(JsonError::Depth(128)));
    for limit in [1, 63, 64, 65, 127, 129, 300] {
        let mixed = |n: usize| {
            (0..n).map(|n| ["[", "{\"a\":"][n % 2]).collect::<String>()
                + "1"
                + &(0..n).rev().map(|n| ["]", "}"][n % 2]).collect::<String>()
        };
        assert!(check(mixed(limit).as_bytes(), limit as u16).is_ok(), "{limit}");
        assert_eq!(check(mixed(limit + 1).as_bytes(), limit as u16), Err(JsonError::Depth(limit as u16)));
        let crossed = mixed(limit).replacen("1]", "1}", 1).replacen("1}", "1]", usize::from(limit % 2 == 0));
        assert!(matches!(check(crossed.as_bytes(), 999), Err(JsonError::Syntax(_))), "{limit}");
    }
    assert_eq!(check("[".repeat(1_000_000).as_bytes(), 128), Err(JsonError::Depth(128)));
}

#[test]
fn a_key_given_twice_is_found_in_any_spelling() {
    for twice in ["{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"é\":1,\"\\u00e9\":2}"] {
        let found = lax_members(twice.as_bytes(), 0).unwrap();
        assert!(matches!(unique(&found), Err(JsonError::Duplicate(_))), "{twice}");
    }
    let found = lax_members(br#"{"a":1,"b":{"a":2}}"#, 0).unwrap();
    assert_eq!((found.len(), unique(&found)), (2, Ok(())));
}

#[test]
fn escapes_resolve_as_serde_json_resolves_them() {
    for text in [r#""\u00e9\n\t\"\\\/""#, r#""\ud83d\ude00x""#, r#""plain é""#] {
        let theirs: String = serde_json::from_str(text).unwrap();
        assert_eq!(string(text.as_bytes(), &(0..text.len() as u32)).unwrap(), theirs);
    }
    assert_eq!(string(br#""\ud800""#, &(0..8)).unwrap(), "\u{FFFD}");
    for none in ["", "7", "\"", "{}", "null"] {
        assert_eq!(string(none.as_bytes(), &(0..none.len() as u32)), None, "{none}");
        assert!(!says(none.as_bytes(), &(0..none.len() as u32), none), "{none}");
    }
}

#[test]
fn a_value_of_a_checked_text_ends_where_the_check_found_its_end() {
    let text = br#"{"a":"x\\\"}","b":[1,{"c":"]"},-2e3],"d":true ,"e":null}"#;
    check(text, 9).unwrap();
    let values: Vec<_> = lax_members(text, 0)
        .unwrap()
        .into_iter()
        .map(|m| &text[m.value.start as usize..m.value.end as usize])
        .collect();
    assert_eq!(values, [&br#""x\\\"}""#[..], br#"[1,{"c":"]"},-2e3]"#, b"true", b"null"]);
}

proptest::proptest! {
    #[test]
    fn a_string_is_what_serde_json_reads_and_says_that_alone(
        text in proptest::prop_oneof!["[a-z \"\\\\]{0,40}", "(\\\\(u00[4-7][1-9a-f]|n|\\\\|\")|[a-zé€😀]){0,40}", "input_required"],
        what in proptest::prop_oneof!["[a-z]{0,3}", "input_required"],
        after in "[a-z]{0,20}",
    ) {
        let quoted = quote(&text);
        let token = serde_json::from_str::<String>(&format!("\"{text}\"")).map_or(quoted, |_| format!("\"{text}\""));
        let theirs: String = serde_json::from_str(&token).unwrap();
        let span = 0..token.len() as u32;
        let longer = format!("{token}{after}");
        proptest::prop_assert_eq!(string(longer.as_bytes(), &span).unwrap(), theirs.as_str());
        proptest::prop_assert_eq!(says(longer.as_bytes(), &span, &what), theirs == what);
        proptest::prop_assert!(says(longer.as_bytes(), &span, &theirs));
    }

    #[test]
    fn no_unchecked_text_makes_the_members_panic(text: Vec<u8>) {
        let _ = lax_members(&text, 0);
        let _ = elements(&text, 0);
    }

    #[test]
    fn any_bytes_are_judged_as_serde_json_judges_them(text in "[\\[\\]{}\",:0-9a-zE.+\\-\\\\ ]{0,24}") {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        proptest::prop_assert_eq!(check(text.as_bytes(), 128).is_ok(), theirs);
    }
}
