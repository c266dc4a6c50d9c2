//! Objects that come again and again byte for byte: what a client or a server says of itself, in the `_meta` of each of its
//! messages. The last few are known by their bytes, and are not scanned again.

use super::outline::{Noted, Rule};
use std::cell::RefCell;

/// How many of a kind are kept by each thread, and how long they may be.
const KEPT: usize = 4;
const LONGEST: usize = 512;

/// Whose `_meta` it is.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Request,
    Result,
}

/// The last objects of a kind.
struct Familiar {
    known: [Known; KEPT],
    /// The one whose place is next to be taken.
    oldest: usize,
}

/// An object that was scanned, and what was noted of it, counted from its own beginning.
struct Known {
    text: [u8; LONGEST],
    /// None yet where it is 0.
    length: usize,
    rule: Rule,
    /// So deep it may be nested, at the least.
    depth: u16,
    noted: Noted,
}

thread_local! {
    static REQUESTS: RefCell<Familiar> = const { RefCell::new(Familiar::nothing()) };
    static RESULTS: RefCell<Familiar> = const { RefCell::new(Familiar::nothing()) };
}

impl Of {
    /// The end of the object at `at` if it is a known one, which is then noted in `into`.
    pub(super) fn again(
        self,
        text: &[u8],
        at: usize,
        rule: Rule,
        depth: u16,
        into: &mut Noted,
    ) -> Option<usize> {
        let here = text.get(at..)?;
        // An object ends where it ends, whatever follows.
        let is = |known: &&Known| {
            known.length > 0
                && here.starts_with(&known.text[..known.length])
                && known.rule == rule
                && known.depth <= depth
        };
        self.familiar(|familiar| {
            let familiar = familiar.borrow();
            let known = familiar.known.iter().find(is)?;
            *into = known.noted.moved(at as u32);
            Some(at + known.length)
        })
    }

    /// Keeps what was noted of the object from `at` to `end`.
    #[cold]
    pub(super) fn keep(self, text: &[u8], at: usize, end: usize, rule: Rule, depth: u16, noted: &Noted) {
        let length = end - at;
        if length > LONGEST {
            return;
        }
        self.familiar(|familiar| {
            let mut familiar = familiar.borrow_mut();
            let place = familiar.oldest;
            familiar.oldest = (place + 1) % KEPT;
            let known = &mut familiar.known[place];
            known.text[..length].copy_from_slice(&text[at..end]);
            (known.length, known.rule, known.depth) = (length, rule, depth);
            known.noted = noted.moved((at as u32).wrapping_neg());
        });
    }

    fn familiar<T>(self, with: impl FnOnce(&RefCell<Familiar>) -> T) -> T {
        match self {
            Of::Request => REQUESTS.with(with),
            Of::Result => RESULTS.with(with),
        }
    }
}

impl Familiar {
    const fn nothing() -> Familiar {
        Familiar { known: [const { Known::nothing() }; KEPT], oldest: 0 }
    }
}

impl Known {
    const fn nothing() -> Known {
        Known { text: [0; LONGEST], length: 0, rule: Rule::Strict, depth: 0, noted: Noted::nothing() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::{self, JsonError};
    use super::super::outline::Outline;
    use super::super::{envelope, meta};
    use super::*;

    /// What a text is judged to be, and where the keys of its `_meta` are; with the end of that as it stands there.
    fn read(text: &str, depth: u16, rule: Rule) -> Result<(Vec<String>, String), JsonError> {
        let mut outline = Outline::under(rule);
        outline.check(text.as_bytes(), depth)?;
        let at = text.find("\"_meta\":").unwrap() as u32 + 8;
        let found = rule.read(text.as_bytes(), at, at, &meta::KEYS, &outline).unwrap();
        let shown =
            |span: crate::wire::Span| text[(at + span.start) as usize..(at + span.end) as usize].to_owned();
        Ok((found.into_iter().flatten().map(shown).collect(), format!("{:?}", outline.noted(at).is_some())))
    }

    #[test]
    fn what_comes_again_reads_as_it_did() {
        let own = |name: &str| {
            format!(
                r#"{{"{}":"2026-07-28","{}":{{"name":"{name}","deep":[[1]]}},"progressToken":7}}"#,
                meta::VERSION,
                meta::CLIENT_INFO
            )
        };
        for round in 0..3 {
            for name in ["a", "b", "c", "d", "e", "a", "a"] {
                for before in ["", r#""name":"x","#, r#""arguments":{"a":1},"#] {
                    for rule in [Rule::Strict, Rule::Lax] {
                        let text = format!(r#"{{"id":{round},"params":{{{before}"_meta":{}}}}}"#, own(name));
                        let info = format!(r#"{{"name":"{name}","deep":[[1]]}}"#);
                        let want = vec!["7".to_owned(), "\"2026-07-28\"".to_owned(), info];
                        assert_eq!(read(&text, 9, rule), Ok((want, "true".to_owned())), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_known_is_judged_by_its_depth_and_by_what_follows() {
        let text = r#"{"id":1,"params":{"_meta":{"own":[[[1]]]}}}"#;
        for depth in [9, 6, 5, 9, 1, 6] {
            let judged = read(text, depth, Rule::Strict).map(drop);
            assert_eq!(judged, json::check(text.as_bytes(), depth).map(drop), "{depth}");
        }
        for broken in [
            r#"{"id":1,"params":{"_meta":{"own":[[[1]]]}"#,
            r#"{"id":1,"params":{"_meta":{"own":[[[1]]]}}x}"#,
        ] {
            let judged = Outline::under(Rule::Strict).check(broken.as_bytes(), 9);
            assert_eq!(judged, json::check(broken.as_bytes(), 9), "{broken}");
        }
    }

    #[test]
    fn what_is_lax_to_one_reader_is_not_so_to_another() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1,"a":2}}}"#;
        for _ in 0..2 {
            assert!(envelope::read_upstream(text.into(), 9).is_ok());
            assert!(envelope::read(text.into(), 9).is_err());
        }
    }

    #[test]
    fn what_is_long_is_not_kept() {
        for length in [LONGEST - 30, LONGEST, LONGEST * 2] {
            let text = format!(
                r#"{{"id":1,"params":{{"_meta":{{"own":"{}","progressToken":7}}}}}}"#,
                "x".repeat(length)
            );
            for _ in 0..2 {
                assert_eq!(read(&text, 9, Rule::Strict).unwrap().0, ["7"]);
            }
        }
    }
}
