//! The headers of a response: slices of its head, looked up where they stand. Of most responses two or three are asked for,
//! so no map is made of them unless somebody wants all.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::ops::Range;

/// The headers of one response.
pub struct Fields {
    head: Bytes,
    places: Places,
}

/// Where the headers stand in their head, in the order they came.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Places {
    places: Vec<Place>,
    /// The lengths of their names, a bit each; the longest share one.
    lengths: u64,
}

/// How many headers most responses have at most.
const USUAL: usize = 16;

/// Where one stands. A head is far shorter than what 32 bits can say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    name: (u32, u32),
    value: (u32, u32),
}

impl Places {
    pub(super) fn push(&mut self, name: Range<usize>, value: Range<usize>) {
        let short = |range: Range<usize>| (range.start as u32, range.end as u32);
        self.lengths |= bit(name.len());
        if self.places.is_empty() {
            self.places.reserve(USUAL);
        }
        self.places.push(Place { name: short(name), value: short(value) });
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

fn bit(length: usize) -> u64 {
    1 << length.min(63)
}

impl Fields {
    /// The places must be within the head.
    pub(super) fn new(head: Bytes, places: Places) -> Fields {
        Fields { head, places }
    }

    /// Those of a head that has these.
    #[cfg(test)]
    pub fn of(fields: &[(&str, &str)]) -> Fields {
        let (mut head, mut places) = (String::new(), Places::default());
        for (name, value) in fields {
            let (start, colon) = (head.len(), head.len() + name.len());
            head.push_str(&format!("{name}: {value}\r\n"));
            places.push(start..colon, colon + 2..head.len() - 2);
        }
        Fields::new(head.into(), places)
    }

    /// All of them, name and value, in the order they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.places.iter().map(|place| (self.slice(place.name), self.slice(place.value)))
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.head[start as usize..end as usize]
    }

    /// The first value of a header.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// All values of a header, in the order they came.
    #[inline]
    pub fn all(&self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &[u8]> {
        let name = name.as_str().as_bytes();
        let any = self.places.lengths & bit(name.len()) != 0;
        let places = if any { &self.places.places[..] } else { &[] };
        let named = move |place: &&Place| {
            let (start, end) = place.name;
            (end - start) as usize == name.len() && self.slice(place.name).eq_ignore_ascii_case(name)
        };
        places.iter().filter(named).map(|place| self.slice(place.value))
    }

    /// All of them as others want them.
    pub fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.places.len());
        for Place { name, value: (start, end) } in &self.places.places {
            let name = HeaderName::from_bytes(self.slice(*name));
            let value = HeaderValue::from_maybe_shared(self.head.slice(*start as usize..*end as usize));
            // Each byte of both was checked as it was read.
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        map
    }
}
