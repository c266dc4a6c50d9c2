//! The headers of a message: slices of its head, looked up where they stand. Of most messages a few are asked for, so no map is
//! made of them unless somebody wants one.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::ops::Range;
use std::sync::OnceLock;

/// More headers than these are too many for one message.
pub const MOST: usize = 100;

/// The headers of one message.
#[derive(Clone, Debug)]
pub struct Fields {
    head: Bytes,
    places: Places,
    /// The same as a map, once it was asked for.
    map: OnceLock<Box<HeaderMap>>,
}

/// Where the headers stand in their head, in the order they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    places: Vec<Place>,
    /// The lengths of their names, a bit each; the longest share one.
    lengths: u64,
}

/// How many headers most messages have at most.
const USUAL: usize = 16;

/// Where one stands. A head is far shorter than what 32 bits can say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    name: (u32, u32),
    value: (u32, u32),
}

impl Places {
    pub fn push(&mut self, name: Range<usize>, value: Range<usize>) {
        let short = |range: Range<usize>| (range.start as u32, range.end as u32);
        self.lengths |= bit(name.len());
        if self.places.capacity() == 0 {
            self.places = Vec::with_capacity(USUAL);
        }
        self.places.push(Place { name: short(name), value: short(value) });
    }

    fn len(&self) -> usize {
        self.places.len()
    }
}

fn bit(length: usize) -> u64 {
    1 << length.min(63)
}

impl Fields {
    /// The places must be within the head.
    pub fn new(head: Bytes, places: Places) -> Fields {
        Fields { head, places, map: OnceLock::new() }
    }

    /// Those of a head that has these.
    #[cfg(test)]
    pub fn of<T: AsRef<[u8]>>(fields: &[(T, T)]) -> Fields {
        let (mut head, mut places) = (Vec::new(), Places::default());
        for (name, value) in fields {
            let (name, value) = (name.as_ref(), value.as_ref());
            let (start, from) = (head.len(), head.len() + name.len() + 2);
            head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            places.push(start..from - 2, from..from + value.len());
        }
        Fields::new(head.into(), places)
    }

    /// All of them, the name as it was written and the value, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.places.iter().map(|place| (self.slice(place.name), self.slice(place.value)))
    }

    #[inline]
    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.head[start as usize..end as usize]
    }

    /// The first value of a header.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        let name = name.as_str().as_bytes();
        let place = self.may_hold(name).iter().find(|place| self.is_named(place, name))?;
        Some(self.slice(place.value))
    }

    /// All values of a header, in the order they came.
    #[inline]
    pub fn all(&self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &[u8]> {
        let name = name.as_str().as_bytes();
        let named = move |place: &&Place| self.is_named(place, name);
        self.may_hold(name).iter().filter(named).map(|place| self.slice(place.value))
    }

    /// All places, where one may be of this name.
    #[inline]
    fn may_hold(&self, name: &[u8]) -> &[Place] {
        if self.places.lengths & bit(name.len()) == 0 { &[] } else { &self.places.places }
    }

    #[inline]
    fn is_named(&self, place: &Place, name: &[u8]) -> bool {
        let (start, end) = place.name;
        (end - start) as usize == name.len() && self.slice(place.name).eq_ignore_ascii_case(name)
    }

    /// All of them as others want them.
    pub fn map(&self) -> &HeaderMap {
        self.map.get_or_init(|| Box::new(self.to_map()))
    }

    pub fn into_map(mut self) -> HeaderMap {
        self.map.take().map_or_else(|| self.to_map(), |map| *map)
    }

    fn to_map(&self) -> HeaderMap {
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

/// Reads the lines of a head from `at` on that is all there and written as nearly all are: one space after each colon, and values
/// that are not empty and do not end in blanks. Where the head ends; `None`: it is another, and a reader of any head is to say
/// what it is.
pub fn quick_lines(input: &[u8], mut at: usize, places: &mut Places) -> Option<usize> {
    while *input.get(at)? != b'\r' {
        let name = at;
        while NAME[usize::from(*input.get(at)?)] {
            at += 1;
        }
        let value = at + 2;
        if at == name || input.get(at..value)? != b": " || places.len() == MOST {
            return None;
        }
        let end = line_end(input, value)?;
        if input[value] == b' ' || input[end - 1] == b' ' {
            return None;
        }
        places.push(name..at, value..end);
        at = end + 2;
    }
    (*input.get(at + 1)? == b'\n').then_some(at + 2)
}

/// The characters of names that are seen; a few others may stand there as well (RFC 9110 5.6.2).
const NAME: [bool; 256] = {
    let mut may = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        may[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'_');
        byte += 1;
    }
    may
};

/// Where the line ends that goes on at `from`; `None`: there is no end, or what no value may hold comes before it.
pub fn line_end(input: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (eights, rest) = input.get(from..)?.as_chunks::<8>();
    let mut at = from;
    let found = eights.iter().find_map(|eight| {
        let eight = u64::from_le_bytes(*eight);
        // The high bit of each byte that is below a space or a DEL. Of several bytes the first is surely right.
        let control = eight.wrapping_sub(ONES * 0x20) & !eight;
        let delete = eight ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        let ends = (control | delete) & (ONES << 7);
        if ends == 0 {
            at += 8;
        }
        (ends != 0).then(|| ends.trailing_zeros() as usize / 8)
    });
    let more = || rest.iter().position(|byte| matches!(byte, ..0x20 | 0x7f));
    let end = at + found.or_else(more)?;
    (*input.get(end)? == b'\r' && *input.get(end + 1)? == b'\n').then_some(end)
}
