//! The names of things in a store: keys with their hash tag, pods, topics. How a key is written for Redis stands here.

use std::fmt::{self, Write as _};
use std::sync::Arc;

/// `prefix:{tag}:rest`. Keys of one tag share a slot of a cluster, and only they may meet in one commit.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Any text; what would end the tag early is escaped when it is written, so a client's text cannot choose the slot.
    pub tag: Arc<str>,
    /// Any text. Empty: the key is the tag alone.
    pub rest: Arc<str>,
}

impl Key {
    pub fn new(tag: impl Into<Arc<str>>, rest: impl Into<Arc<str>>) -> Self {
        Key { tag: tag.into(), rest: rest.into() }
    }

    /// The key as a shared server sees it: `prefix:{tag}:rest`, or `prefix:{tag}` without a rest.
    pub fn render(&self, prefix: &str) -> String {
        format!("{prefix}:{self}")
    }

    /// The inverse of [`Key::render`]; `None` for anything that it did not write.
    pub fn parse(prefix: &str, text: &str) -> Option<Self> {
        let text = text.strip_prefix(prefix)?.strip_prefix(":{")?;
        let (tag, rest) = text.split_once('}')?;
        let rest = match rest.strip_prefix(':') {
            Some(rest) if !rest.is_empty() => rest,
            None if rest.is_empty() => "",
            _ => return None,
        };
        Some(Key::new(unescape(tag)?, rest))
    }
}

/// As in [`Key::render`], without the prefix.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        if self.tag.is_empty() {
            // Redis hashes the whole key where the tag is empty; then equal tags would not share a slot.
            f.write_char('%')?;
        }
        for c in self.tag.chars() {
            match c {
                '{' => f.write_str("%7B")?,
                '}' => f.write_str("%7D")?,
                '%' => f.write_str("%25")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('}')?;
        if self.rest.is_empty() { Ok(()) } else { write!(f, ":{}", self.rest) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn unescape(tag: &str) -> Option<String> {
    match tag {
        "" => return None,
        "%" => return Some(String::new()),
        _ if tag.contains('{') => return None,
        _ => {}
    }
    let mut parts = tag.split('%');
    let mut plain = String::from(parts.next()?);
    for part in parts {
        let (code, text) = part.split_at_checked(2)?;
        plain.push(match code {
            "7B" => '{',
            "7D" => '}',
            "25" => '%',
            _ => return None,
        });
        plain.push_str(text);
    }
    Some(plain)
}

/// One running process. A restarted pod is another one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId(Arc<str>);

impl PodId {
    /// Eight characters of `a–z2–7`, 40 random bits: enough to tell apart the pods that live at one time.
    pub fn random() -> Self {
        let mut bits = [0u8; 8];
        aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
        let letters =
            bits.map(|bits| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(bits & 31)]));
        PodId(String::from_iter(letters).into())
    }

    /// A name that came from elsewhere: a lease's record, a sealed value.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        PodId(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What something said on the bus is about; its hearers tell kinds apart by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Topic(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_written_as_the_design_says() {
        assert_eq!(Key::new("s1", "t").render("plasm"), "plasm:{s1}:t");
        assert_eq!(Key::new("c:77", "").render("plasm"), "plasm:{c:77}");
        assert_eq!(Key::new("s1", "x:2").render("a:b"), "a:b:{s1}:x:2");
        assert_eq!(Key::new("", "t").render("plasm"), "plasm:{%}:t");
    }

    #[test]
    fn a_tag_cannot_choose_another_slot() {
        assert_eq!(Key::new("a}:t", "x").render("p"), "p:{a%7D:t}:x");
        assert_eq!(Key::new("{a", "x").render("p"), "p:{%7Ba}:x");
    }

    #[test]
    fn what_render_did_not_write_is_no_key() {
        for text in [
            "",
            "p",
            "p:t",
            "p:{}:t",
            "p:{a",
            "p:{a}:",
            "p:{a}t",
            "p:{a%}:t",
            "p:{a%41}:t",
            "p:{{a}:t",
            "q:{a}:t",
        ] {
            assert_eq!(Key::parse("p", text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_key_comes_back(tag in any::<String>(), rest in any::<String>()) {
            let key = Key::new(tag, rest);
            prop_assert_eq!(Key::parse("plasm", &key.render("plasm")), Some(key));
        }
    }

    #[test]
    fn pods_have_eight_characters_and_differ() {
        let (a, b) = (PodId::random(), PodId::random());
        assert_eq!(a.as_str().len(), 8);
        assert_ne!(a, b);
    }
}
