//! The names of logical sessions and of what is kept in one: random, and of a form that is known at sight.

use std::{fmt, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Characters of a random name, five bits each: 130 bits.
const RANDOM: usize = 26;
/// Characters of a reference's tie to its session: 30 bits, against mistaking, not against forging.
const TIE: usize = 6;

/// Names a logical session: `l_` and 26 characters of lower-case base32.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(Arc<str>);

impl Handle {
    pub(super) fn random() -> Handle {
        Handle(format!("l_{}", random()).into())
    }

    /// `None` where it has not the form of a handle.
    pub fn parse(text: &str) -> Option<Handle> {
        text.strip_prefix("l_").filter(|rest| is_name(rest, RANDOM)).map(|_| Handle(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag of all its keys.
    pub(super) fn tag(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Never in full: whoever reads a log must not be able to use the session of one who needs no login.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..6).unwrap_or_default())
    }
}

/// What `plasm_run` is given: a plan (`p_…`), or where a read goes on (`n_…`). Its last characters tie it to its session, so
/// that another session's is known from one that has expired.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RunRef {
    pub(super) kind: RefKind,
    name: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RefKind {
    Plan,
    Page,
}

impl RunRef {
    pub(super) fn random(kind: RefKind, of: &Handle) -> RunRef {
        let name = random();
        RunRef { kind, name: format!("{name}{}", tie(of, &name)).into() }
    }

    /// `None` where it is not a reference of that session.
    pub(super) fn parse(text: &str, of: &Handle) -> Option<RunRef> {
        let (kind, name) = match text.split_at_checked(2)? {
            ("p_", name) => (RefKind::Plan, name),
            ("n_", name) => (RefKind::Page, name),
            _ => return None,
        };
        let (random, tied) = name.split_at_checked(RANDOM)?;
        (is_name(name, RANDOM + TIE) && tie(of, random) == tied).then(|| RunRef { kind, name: name.into() })
    }

    /// Names the run of it, within its session.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind {
            RefKind::Plan => 'p',
            RefKind::Page => 'n',
        };
        write!(f, "{letter}_{}", self.name)
    }
}

impl fmt::Debug for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(in crate::execute) fn random() -> String {
    let mut bits = [0u8; RANDOM];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    letters(&bits)
}

fn letters(bits: &[u8]) -> String {
    bits.iter().map(|bits| char::from(LETTERS[usize::from(bits & 31)])).collect()
}

fn is_name(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| LETTERS.contains(&byte))
}

fn tie(of: &Handle, name: &str) -> String {
    letters(&digest(&SHA256, format!("{of} {name}").as_bytes()).as_ref()[..TIE])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_its_form_and_nothing_else_has() {
        let handle = Handle::random();
        assert_eq!((handle.as_str().len(), Handle::parse(handle.as_str())), (28, Some(handle.clone())));
        assert!(!format!("{handle:?}").contains(&handle.as_str()[6..]));
        let upper = handle.as_str().to_uppercase();
        let long = format!("{handle}a");
        for text in ["", "l_", &handle.as_str()[2..], &handle.as_str()[..27], &upper, &long, "l_é"] {
            assert_eq!(Handle::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_reference_is_of_one_session() {
        let (mine, other) = (Handle::random(), Handle::random());
        for kind in [RefKind::Plan, RefKind::Page] {
            let text = RunRef::random(kind, &mine).to_string();
            assert_eq!(RunRef::parse(&text, &mine).map(|read| read.to_string()), Some(text.clone()));
            assert_eq!(RunRef::parse(&text, &other), None);
            assert_eq!(RunRef::parse(&text[..text.len() - 1], &mine), None);
        }
        assert_eq!(RunRef::parse("p_é", &mine), None);
    }
}
