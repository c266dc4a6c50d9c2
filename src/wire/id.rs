//! A JSON-RPC id, kept byte for byte: `0`, `"1"` and a 60-bit integer come back as they came.

use super::{Span, json};
use bytes::Bytes;
use smallvec::SmallVec;
use std::fmt;

/// A request's id as it stands in the message: an integer or a string (MCP, *basic: requests*). Compared by bytes. Most are
/// short, and then there is nothing to allocate.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(SmallVec<[u8; 24]>);

impl Id {
    /// The id at `span`, or `None` where MCP does not allow it: `null`, fractions, exponents, objects, arrays, booleans.
    pub fn read(text: &[u8], span: &Span) -> Option<Id> {
        let token = &text[span.start as usize..span.end as usize];
        let whole = match token.first()? {
            b'"' => true,
            b'-' | b'0'..=b'9' => !token.iter().any(|b| matches!(b, b'.' | b'e' | b'E')),
            _ => false,
        };
        whole.then(|| Id(SmallVec::from_slice(token)))
    }

    /// An id of ours: a string token.
    pub fn of_str(id: &str) -> Id {
        Id(json::quote(id).into_bytes().into())
    }

    /// The string id of a prefix, which needs no escapes, and a count.
    pub fn counted(prefix: &str, count: u64) -> Id {
        // From its end on.
        let mut token = [b'"'; 64];
        let mut at = token.len() - 1;
        let mut left = count;
        loop {
            at -= 1;
            token[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        match at.checked_sub(prefix.len() + 1) {
            Some(start) => {
                token[start + 1..at].copy_from_slice(prefix.as_bytes());
                Id(SmallVec::from_slice(&token[start..]))
            }
            None => Id::of_str(&format!("{prefix}{count}")),
        }
    }

    pub fn of_number(id: u64) -> Id {
        Id(id.to_string().into_bytes().into())
    }

    /// The JSON token, quotes included.
    pub fn token(&self) -> &[u8] {
        &self.0
    }

    /// The JSON token as JSON of its own.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The text of a string id; `None` for integers.
    pub fn as_str(&self) -> Option<std::borrow::Cow<'_, str>> {
        json::string(&self.0, &(0..self.0.len() as u32))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_id_is_the_string_of_prefix_and_count() {
        for count in [0, 7, 10, 1234567890, u64::MAX] {
            for prefix in ["", "a-", &"long".repeat(10), &"long".repeat(20)] {
                assert_eq!(Id::counted(prefix, count), Id::of_str(&format!("{prefix}{count}")));
            }
        }
    }

    #[test]
    fn integers_and_strings_are_ids_and_nothing_else_is() {
        let read = |t: &'static str| Id::read(t.as_bytes(), &(0..t.len() as u32));
        for good in ["0", "-1", "\"\"", "\"0\"", "\"é\"", "9007199254740993", "1152921504606846977"] {
            assert_eq!(read(good).unwrap().token(), good.as_bytes());
        }
        for bad in ["null", "1.5", "1.0", "1e2", "{}", "[]", "true"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_ne!(read("1"), read("\"1\""));
    }
}
