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

#[test]
fn a_plain_run_ends_at_the_first_byte_that_is_none() {
    for special in [b'"', b'\\', 0, 0x1f] {
        for length in 0..40 {
            let mut text = vec![b'~'; 40];
            text[length] = special;
            assert_eq!(plain(&text, 0), length, "{special} at {length}");
        }
    }
    let high = "é€😀\u{7f} \u{80}".repeat(9);
    assert_eq!(plain(high.as_bytes(), 0), high.len());
}

proptest::proptest! {
    #[test]
    fn a_plain_run_is_what_a_byte_by_byte_look_finds(text: Vec<u8>, at in 0usize..8) {
        let at = at.min(text.len());
        let slow = text[at..].iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20);
        proptest::prop_assert_eq!(plain(&text, at), slow.unwrap_or(text.len() - at));
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
