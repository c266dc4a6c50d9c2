//! What holds of any text: nothing panics, what is printed parses to the same tree, a correction is accepted.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Words of programs, right and wrong ones, from which soup is made.
const WORDS: &[&str] = &[
    "Type",
    "Pokemon",
    "Issue",
    "Project",
    "e1",
    "e4",
    "e9",
    "r1",
    "m2",
    "p3",
    "fire",
    "rows",
    "name",
    "id",
    "state",
    "project",
    "title",
    "_",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "true",
    "as",
    "desc",
    "asc",
    "return",
    "filter",
    "search",
    "sort",
    "limit",
    "page_size",
    "distinct",
    "singleton",
    "group_by",
    "aggregate",
    "render",
    "count",
    "sum",
    "update",
    "create",
    "labels",
    "issues",
    "pokemon",
    "now",
    "ago",
    "\"fire\"",
    "\"30d\"",
    "'x'",
    "\"\\q\"",
    "3",
    "-1.5",
    "0x",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "|",
    ":",
    "::",
    "=",
    "==",
    "=>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "~",
    "<<T",
    "\nT\n",
    "\nT)",
    "\n",
    ";",
    "#",
    "\\n",
    "\\\"",
    "$",
    "…",
    "*",
    "&&",
    "!",
    " ",
    "é",
    "\u{a0}",
    "\t",
    "\r\n",
];

fn soup() -> impl Strategy<Value = String> {
    vec((select(WORDS), select(&["", " "][..])), 0..40)
        .prop_map(|words| words.into_iter().map(|(word, gap)| format!("{word}{gap}")).collect())
}

/// A program of the corpora with a piece taken out, doubled or put elsewhere.
fn mutated() -> impl Strategy<Value = String> {
    let programs: Vec<String> = ["accepted.jsonl", "rejected.jsonl"]
        .iter()
        .flat_map(|name| lines(name))
        .map(|line| line["program"].as_str().unwrap().to_owned())
        .collect();
    let place = any::<prop::sample::Index>;
    (select(programs), place(), place(), select(WORDS), 0..4u8).prop_map(|(program, from, to, word, how)| {
        let chars: Vec<char> = program.chars().collect();
        let (a, b) = (from.index(chars.len() + 1), to.index(chars.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        let text = |chars: &[char]| chars.iter().collect::<String>();
        match how {
            0 => text(&chars[..a]) + &text(&chars[b..]),
            1 => text(&chars[..b]) + &text(&chars[a..]),
            2 => text(&chars[..a]) + word + &text(&chars[a..]),
            _ => text(&chars[..a]) + word + &text(&chars[b..]),
        }
    })
}

fn name() -> impl Strategy<Value = String> {
    select(&["a", "b", "name", "id", "state", "e1", "r2", "m3", "Type", "count"][..]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    vec(name(), 1..3).prop_map(|parts| parts.join("."))
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        path(),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no infinities", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        any::<String>().prop_map(|text| Json::from(text).to_string()),
        "[ -~]{0,12}(\n[ -~]{0,12}){0,3}".prop_map(|text| format!("<<X_Y\n{text}\nX_Y\n")),
        select(
            &["true", "false", "null", "now()", "ago(\"2w\")", "Type(\"x\")", "api-x::Type(a = 1, b = 2)"][..]
        )
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            vec((name(), inner), 0..3).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

fn predicate() -> impl Strategy<Value = String> {
    let compare = (path(), select(&["=", "!=", "<", "<=", ">", ">=", "~", "in"][..]), value())
        .prop_map(|(path, op, value)| format!("{path} {op} {value}"));
    let null =
        (path(), select(&["is null", "is not null"][..])).prop_map(|(path, is)| format!("{path} {is}"));
    prop_oneof![4 => compare, 1 => null].prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(|any| any.join(" or ")),
            vec(inner.clone(), 2..4).prop_map(|all| all.join(" and ")),
            inner.clone().prop_map(|inside| format!("({inside})")),
            inner.prop_map(|inside| format!("not ({inside})")),
        ]
    })
}

fn args() -> impl Strategy<Value = String> {
    vec((name(), value()), 0..3).prop_map(|args| {
        let args: Vec<String> = args.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!("({})", args.join(", "))
    })
}

fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        name().prop_map(|name| format!(".{name}")),
        (name(), args()).prop_map(|(name, args)| format!(".{name}{args}")),
        vec(predicate(), 1..3).prop_map(|all| format!(" | filter({})", all.join(", "))),
        vec((path(), select(&["", " desc", " asc"][..])), 1..3).prop_map(|orders| {
            let orders: Vec<String> =
                orders.into_iter().map(|(path, order)| format!("{path}{order}")).collect();
            format!("\n  | sort({})", orders.join(", "))
        }),
        (1..99u8).prop_map(|n| format!(" | limit({n})")),
        Just(" | singleton()".to_owned()),
        vec(path(), 0..3).prop_map(|paths| format!(" | distinct({})", paths.join(", "))),
        (path(), path()).prop_map(|(by, of)| format!(" | group_by({by}, n = count(), m = max({of}))")),
        "[a-z{} ]{0,9}".prop_map(|text| format!(" | render <<T\n{text}\nT\n")),
        vec((path(), select(&["", " as x"][..])), 1..3).prop_map(|columns| {
            let columns: Vec<String> =
                columns.into_iter().map(|(path, label)| format!("{path}{label}")).collect();
            format!("[{}]", columns.join(", "))
        }),
    ]
}

/// Programs that the grammar has, whatever their names may mean.
fn program() -> impl Strategy<Value = String> {
    let head = prop_oneof![
        name(),
        (name(), value()).prop_map(|(name, key)| format!("{name}({key})")),
        Just("api::Type(name = \"x\")".to_owned()),
        Just("\"text\"\n  | limit(1)".to_owned()),
    ];
    let flow = (head, vec(step(), 0..4)).prop_map(|(head, steps)| head + &steps.concat());
    let effect = prop_oneof![
        Just(String::new()),
        args().prop_map(|args| format!("\n => _.m1{args}")),
        args().prop_map(|args| format!(" => Type(\"x\").make{args}")),
    ];
    let rhs = (flow, effect).prop_map(|(flow, effect)| flow + &effect).boxed();
    (vec(rhs.clone(), 0..3), vec(rhs, 1..3)).prop_map(|(bound, roots)| {
        let bound: String =
            bound.into_iter().enumerate().map(|(index, rhs)| format!("x_{index} = {rhs}\n")).collect();
        bound + &roots.join(", ") + "\n"
    })
}

/// A heredoc ends with its line, so some of what is put together above is not in the grammar: a line that begins with `[`
/// or `,` after one.
fn same_tree_after_printing(text: &str) -> Result<bool, TestCaseError> {
    let Ok(program) = parse(text) else { return Ok(false) };
    let printed = print(&program);
    let again = match parse(&printed) {
        Ok(again) => again,
        Err(error) => return Err(TestCaseError::fail(format!("{printed}\n{}", error.render(&printed)))),
    };
    let tree = |program: &Program| serde_json::to_value(program).unwrap();
    prop_assert_eq!(tree(&program), tree(&again), "{}", printed);
    prop_assert_eq!(print(&again), printed);
    Ok(true)
}

fn holds_of_any(text: &str) -> Result<(), TestCaseError> {
    if let Err(error) = check(text, scope()) {
        let at = error.place(text);
        prop_assert!(at.line >= 1 && at.col >= 1);
        prop_assert!(text.get(error.span.start..error.span.end).is_some(), "{:?} of {text:?}", error.span);
        prop_assert!(error.render(text).starts_with("error["));
        if let Some(fix) = &error.fix {
            prop_assert!(check(fix, scope()).is_ok(), "{fix}");
        }
    }
    same_tree_after_printing(text).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn soup_of_words_never_panics(text in soup()) {
        holds_of_any(&text)?;
    }

    #[test]
    fn a_changed_program_never_panics(text in mutated()) {
        holds_of_any(&text)?;
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        holds_of_any(&text)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_parses_to_the_same_tree(text in program()) {
        same_tree_after_printing(&text)?;
    }
}

#[test]
fn the_corpora_are_printed_and_parse_to_the_same_tree() {
    for line in lines("accepted.jsonl") {
        let program = line["program"].as_str().unwrap();
        assert!(same_tree_after_printing(program).unwrap(), "{program}");
    }
}

#[test]
fn most_programs_of_the_grammar_are_parsed() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let parsed = (0..200).filter(|_| {
        use proptest::strategy::ValueTree as _;
        let text = program().new_tree(&mut runner).unwrap().current();
        parse(&text).is_ok()
    });
    let parsed = parsed.count();
    assert!(parsed > 120, "{parsed} of 200: the property above sees too few");
}

#[test]
fn depth_and_size_are_bounded() {
    for deep in ["[", "(", "{a:", "not (", "[Type("] {
        let text = format!("Type | filter(name = {}", deep.repeat(20_000));
        assert!(check(&text, scope()).is_err());
        let text = format!("Type | filter({}", deep.repeat(20_000));
        assert!(check(&text[..text.len().min(LARGEST)], scope()).is_err());
    }
    assert_eq!(parse(&" ".repeat(LARGEST + 1)).unwrap_err().code, Code::Syntax);
}
