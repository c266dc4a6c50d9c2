//! The headers of a response: slices of its head, looked up where they stand. Of most responses two or three are asked for,
//! so no map is made of them unless somebody wants all.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use std::ops::Range;

/// The headers of one response.
pub struct Fields {
    head: Bytes,
    places: Places,
}

/// Where the headers stand in their head, in the order they came.
pub(super) type Places = SmallVec<[Place; 8]>;

/// Where one stands. A head is far shorter than what 32 bits can say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    name: (u32, u32),
    value: (u32, u32),
}

impl Place {
    pub(super) fn of(name: Range<usize>, value: Range<usize>) -> Place {
        let short = |range: Range<usize>| (range.start as u32, range.end as u32);
        Place { name: short(name), value: short(value) }
    }
}

impl Fields {
    /// The places must be within the head.
    pub(super) fn new(head: Bytes, places: Places) -> Fields {
        Fields { head, places }
    }

    /// Those of a head that has these.
    #[cfg(test)]
    pub fn of(fields: &[(&str, &str)]) -> Fields {
        let (mut head, mut places) = (String::new(), Places::new());
        for (name, value) in fields {
            let (start, colon) = (head.len(), head.len() + name.len());
            head.push_str(&format!("{name}: {value}\r\n"));
            places.push(Place::of(start..colon, colon + 2..head.len() - 2));
        }
        Fields::new(head.into(), places)
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.head[start as usize..end as usize]
    }

    /// The first value of a header.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// All values of a header, in the order they came.
    pub fn all(&self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &[u8]> {
        let name = name.as_str().as_bytes();
        let named = move |place: &&Place| self.slice(place.name).eq_ignore_ascii_case(name);
        self.places.iter().filter(named).map(|place| self.slice(place.value))
    }

    /// All of them as others want them.
    pub fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.places.len());
        for Place { name, value: (start, end) } in &self.places {
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
