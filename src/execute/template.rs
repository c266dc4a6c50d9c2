//! The templates of `| render`: what they may say, and a place in which no template can take more memory or time than it is
//! given. Text and lists grow by nothing but what is written out, which is bounded: what would let them double at each step
//! is refused when the program is checked.

use std::fmt::{self, Write as _};

use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, filters};

/// Most bytes that a template writes, and that one text within it has.
pub const MOST_TEXT: usize = 256 << 10;
/// Most steps of a template; 10,000 rows of twenty columns take some hundred thousand.
pub const FUEL: u64 = 2_000_000;

/// Filters and tests that make texts or lists of their own, without a bound.
const UNBOUNDED: [&str; 18] = [
    "string",
    "safe",
    "escape",
    "e",
    "split",
    "lines",
    "indent",
    "urlencode",
    "format",
    "pprint",
    "tojson",
    "batch",
    "slice",
    "chain",
    "zip",
    "list",
    "attr",
    "center",
];

/// Where templates run: they see what they are given, and bounded filters.
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_formatter(format);
    for name in ["namespace", "dict", "debug"] {
        environment.remove_global(name);
    }
    UNBOUNDED.iter().for_each(|name| environment.remove_filter(name));
    ["startingwith", "endingwith"].iter().for_each(|name| environment.remove_test(name));
    environment.add_filter("upper", |value: &Value| text(value).map(|text| text.to_uppercase()));
    environment.add_filter("lower", |value: &Value| text(value).map(|text| text.to_lowercase()));
    environment.add_filter("title", |value: &Value| text(value).map(|text| filters::title(text.into())));
    environment.add_filter("capitalize", |value: &Value| {
        let text = text(value)?;
        let mut chars = text.chars();
        let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
        Ok::<_, Error>(first + &chars.as_str().to_lowercase())
    });
    environment.add_filter("trim", |value: &Value| text(value).map(|text| text.trim().to_owned()));
    environment.add_filter("replace", |value: &Value, from: &str, to: &str| {
        let text = text(value)?;
        let places = text.matches(from).count();
        match text.len().saturating_add(places.saturating_mul(to.len())) <= MOST_TEXT {
            true => Ok(text.replace(from, to)),
            false => Err(too_long()),
        }
    });
    environment.add_filter("join", |values: &Value, between: Option<&str>| {
        let mut joined = Bounded(String::new());
        for (index, value) in values.try_iter()?.enumerate() {
            let between = between.filter(|_| index > 0).unwrap_or_default();
            write!(joined, "{between}{value}").map_err(|_| too_long())?;
        }
        Ok::<_, Error>(joined.0)
    });
    environment.add_filter("truncate", |value: &Value, most: usize| {
        let text = text(value)?;
        let end = text.char_indices().nth(most).map(|(end, _)| end);
        Ok::<_, Error>(end.map_or_else(|| text.clone(), |end| format!("{}…", &text[..end])))
    });
    environment.add_filter("times", |a: f64, b: f64| number(a * b));
    environment.add_filter("plus", |a: f64, b: f64| number(a + b));
    environment
}

/// A whole number is shown as one.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

fn text(value: &Value) -> Result<String, Error> {
    let mut text = Bounded(String::new());
    write!(text, "{value}").map_err(|_| too_long())?;
    Ok(text.0)
}

fn too_long() -> Error {
    Error::new(ErrorKind::WriteFailure, "a text is too long")
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MOST_TEXT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Null is written as nothing.
fn format(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.is_none() { Ok(()) } else { minijinja::escape_formatter(output, state, value) }
}

/// What of a template is not allowed: its line, from 1, and why.
pub fn refused(template: &str) -> Option<(usize, String)> {
    let mut rest = template;
    loop {
        let start = rest.find("{{").into_iter().chain(rest.find("{%")).min()?;
        let is_statement = rest[start..].starts_with("{%");
        let inside = &rest[start + 2..];
        let (why, length) = tag(inside, is_statement);
        if let Some(why) = why {
            let before = template.len() - inside.len();
            return Some((template[..before].matches('\n').count() + 1, why));
        }
        rest = &inside[length..];
    }
}

/// What within a tag is not allowed, and how long the tag is.
fn tag(text: &str, is_statement: bool) -> (Option<String>, usize) {
    let mut tokens: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let left = &text[at..];
        let length = if left.starts_with("}}") && !is_statement || left.starts_with("%}") && is_statement {
            return (judge(&tokens, is_statement), at + 2);
        } else if next == '"' || next == '\'' {
            string(left, next)
        } else if next.is_alphanumeric() || next == '_' {
            left.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(left.len())
        } else if ["==", "!=", "<=", ">=", "**", "//"].iter().any(|two| left.starts_with(two)) {
            2
        } else {
            next.len_utf8()
        };
        if !next.is_whitespace() {
            tokens.push(&left[..length]);
        }
        at += length;
    }
    (judge(&tokens, is_statement), at)
}

/// The bytes of a string that begins there.
fn string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn judge(tokens: &[&str], is_statement: bool) -> Option<String> {
    let named = |token: &str| token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_number =
        |token: Option<&&str>| token.is_some_and(|token| token.starts_with(|c: char| c.is_ascii_digit()));
    // After one of these begins a value, and before it none has ended.
    let keyword = |token: &str| {
        matches!(token, "in" | "if" | "else" | "elif" | "and" | "or" | "not" | "is" | "set" | "with")
    };
    let mut brackets: Vec<bool> = Vec::new();
    let begins = tokens.iter().position(|token| named(token)).filter(|_| is_statement);
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| tokens[before]);
        let after_value = before.is_some_and(|before| {
            matches!(before, ")" | "]")
                || before.starts_with(['"', '\''])
                || named(before) && !keyword(before)
        });
        match *token {
            "~" => return Some("~ is not allowed: write the values one after another".to_owned()),
            "*" | "**" => return Some(format!("{token} is not allowed: write a|times(b)")),
            "+" if !is_number(tokens.get(index + 1))
                && !is_number(index.checked_sub(1).map(|at| &tokens[at])) =>
            {
                return Some("+ is only allowed with a number written out: write a|plus(b)".to_owned());
            }
            "[" if !after_value => return Some("lists are not allowed".to_owned()),
            "{" => return Some("objects are not allowed".to_owned()),
            "(" | "[" => brackets.push(after_value),
            ")" | "]" => drop(brackets.pop()),
            "," if brackets.last() == Some(&false) => return Some("lists are not allowed".to_owned()),
            "," if brackets.is_empty() && !matches!(begins.map(|at| tokens[at]), Some("for" | "with")) => {
                return Some("lists are not allowed".to_owned());
            }
            "recursive" => return Some("a loop within itself is not allowed".to_owned()),
            _ => {}
        }
    }
    match begins.map(|at| (tokens[at], at)) {
        Some(("set", _)) if !tokens.contains(&"=") => {
            Some("set needs a value: {% set name = value %}".to_owned())
        }
        Some(("for", at)) => {
            // Names may be apart by commas; values may not.
            let values = tokens[at..].iter().skip_while(|token| **token != "in");
            let mut open = 0_i32;
            for token in values {
                open += i32::from(matches!(*token, "(" | "[")) - i32::from(matches!(*token, ")" | "]"));
                if *token == "," && open == 0 {
                    return Some("lists are not allowed".to_owned());
                }
            }
            None
        }
        Some((
            name @ ("filter" | "macro" | "call" | "include" | "import" | "from" | "extends" | "block"
            | "autoescape"),
            _,
        )) => Some(format!("{{% {name} %}} is not allowed")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_double_is_refused_with_its_line() {
        for template in [
            "\n{{ a ~ a }}",
            "\n{% set x = a ~ a %}",
            "\n{{ 'a' * 9 }}",
            "\n{{ a + a }}",
            "\n{% set x %}{{ a }}{% endset %}",
            "\n{% for b in [a, a] %}{% endfor %}",
            "\n{% for b in (a, a) %}{% endfor %}",
            "\n{% for b in a, a %}{% endfor %}",
            "\n{% set x = a, a %}",
            "\n{{ {'a': a} }}",
            "\n{% for a in rows recursive %}{% endfor %}",
            "\n{% filter upper %}{% endfilter %}",
            "\n{{ '}}' ~ a }}",
            "\n{{ \"\\\"\" ~ a }}",
            "\n{%- set x = a~a -%}",
        ] {
            assert_eq!(refused(template).map(|(line, _)| line), Some(2), "{template}");
        }
    }

    #[test]
    fn what_people_write_is_not() {
        for template in [
            "plain ~ * + [text] {a}",
            "{% for r in rows %}{{ loop.index }}. {{ r.name }}{% if not loop.last %}, {% endif %}{% endfor %}",
            "{% for key, value in rows[0]|items %}{{ key }}{% endfor %}",
            "{{ rows[0].name|default('+ ~ *') }}{{ rows|map(attribute='name')|join(', ') }}",
            "{{ loop.index0 + 1 }}{{ rows|length - 1 }}{{ r.price|times(2)|round(1) }}",
            "{% set total = rows|sum(attribute='n') %}{% if total >= 3 and r['x'] is defined %}{% elif (a or b) %}{% endif %}",
            "{% with a = rows, b = 2 %}{{ a[b] }}{% endwith %}{# a ~ b #}",
        ] {
            assert_eq!(refused(template), None, "{template}");
        }
    }

    #[test]
    fn filters_are_bounded() {
        let run = |template: &str| {
            let long = "a".repeat(MOST_TEXT);
            environment().render_str(template, minijinja::context! { a => "abc", long, n => 3 })
        };
        assert_eq!(
            run("{{ a|upper }}{{ a|title }}{{ a|replace('b', 'xx') }}{{ n|times(1.5) }}{{ n|plus(1) }}")
                .unwrap(),
            "ABCAbcaxxc4.54"
        );
        assert_eq!(
            run("{{ a|truncate(2) }}{{ range(3)|join('-') }}{{ a|capitalize }}{{ ' a '|trim }}").unwrap(),
            "ab…0-1-2Abca"
        );
        for template in ["{{ long|replace('a', 'bb') }}", "{{ range(9)|join(long) }}"] {
            assert_eq!(run(template).unwrap_err().kind(), ErrorKind::WriteFailure, "{template}");
        }
        assert!(run("{{ a|string }}").is_err() && run("{{ namespace() }}").is_err());
    }
}
