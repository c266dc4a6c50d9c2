//! `WWW-Authenticate` as an upstream writes it (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1): what a refusal asks for.

/// Most scopes that one challenge may ask for, and characters of one.
const SCOPES: usize = 64;
const LONGEST: usize = 256;

/// What the `Bearer` challenges of a refusal say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub scopes: Option<Vec<String>>,
    pub resource_metadata: Option<String>,
    pub insufficient: bool,
}

impl Challenge {
    pub(super) fn read(challenges: &[String]) -> Challenge {
        let mut read = Challenge::default();
        for text in challenges {
            let mut rest = text.as_str();
            let mut bearer = false;
            while let Some((word, after)) = word(rest) {
                let after = after.trim_start();
                match after.strip_prefix('=') {
                    // A parameter.
                    Some(value) => {
                        let (value, after) = value_of(value.trim_start());
                        if bearer {
                            read.take(word, &value);
                        }
                        rest = after;
                    }
                    // A scheme.
                    None => {
                        bearer = word.eq_ignore_ascii_case("bearer");
                        rest = after;
                    }
                }
            }
        }
        read
    }

    fn take(&mut self, name: &str, value: &str) {
        match name.to_ascii_lowercase().as_str() {
            "scope" => self.scopes = Some(scopes(value)),
            "resource_metadata" => self.resource_metadata = Some(value.to_owned()),
            "error" => self.insufficient |= value == "insufficient_scope",
            _ => {}
        }
    }
}

/// The words of a `scope`, as far as they can be scopes (RFC 6749 3.3).
pub(super) fn scopes(text: &str) -> Vec<String> {
    let fits = |word: &&str| {
        let plain = word.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
        !word.is_empty() && word.len() <= LONGEST && plain
    };
    text.split(' ').filter(fits).take(SCOPES).map(str::to_owned).collect()
}

/// The next token, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c)));
    match end.unwrap_or(text.len()) {
        0 => None,
        end => Some(text.split_at(end)),
    }
}

/// A token or quoted string, and what follows it.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_in_each_form_that_servers_write() {
        let all = Challenge {
            scopes: Some(vec!["a".into(), "b:c".into()]),
            resource_metadata: Some("https://h/x?y=1,2".into()),
            insufficient: true,
        };
        for text in [
            r#"Bearer error="insufficient_scope", scope="a b:c", resource_metadata="https://h/x?y=1,2""#,
            r#"bearer scope="a  b:c",resource_metadata="https://h/x?y=1,2" , error=insufficient_scope"#,
            r#"Basic realm="x, Bearer scope=z", Bearer realm="a\"b", scope="a b:c", error="insufficient_scope", resource_metadata="https://h/x?y=1,2""#,
            r#"Negotiate abc==, Bearer Error="insufficient_scope", Scope="a b:c", Resource_Metadata="https://h/x?y=1,2""#,
        ] {
            assert_eq!(Challenge::read(&[text.to_owned()]), all, "{text}");
        }
        let none =
            |text: &str| assert_eq!(Challenge::read(&[text.to_owned()]), Challenge::default(), "{text}");
        none("Bearer");
        none("");
        none(r#"Basic scope="a""#);
        none(r#"Bearer realm="unfinished"#);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic_or_hang(text in "(Bearer |[a-z]+=|\"|\\\\|[ -~]|é){0,24}") {
            let _ = Challenge::read(&[text]);
        }
    }
}
