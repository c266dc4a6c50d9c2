//! Durations (`250ms`, `30s`, `1h30m`) and sizes (`4MiB`, `32KiB`, or a number of bytes) as the configuration writes
//! them: text to value, value to text, and how the schema names them. Knows no setting.

use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};

/// The units of a duration, largest first, in milliseconds.
const TIME: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The units of a size, largest first, in bytes.
const BYTES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A duration from text such as `250ms`, `30s`, `5m`, `24h`, `7d` or a sum of these (`1h30m`).
/// `None` for anything else, also for what does not fit 64 bits of milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let (number, unit) = rest[..digits + letters].split_at(digits);
        let scale = TIME.iter().find(|(name, _)| *name == unit)?.1;
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(scale)?)?;
        rest = &rest[digits + letters..];
    }
    (!text.is_empty()).then(|| Duration::from_millis(millis))
}

/// The shortest text of one unit that [`parse_duration`] reads back as this value (whole milliseconds).
pub fn show_duration(value: Duration) -> String {
    let millis = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
    // Days are left out: `24h` is how people write this session life.
    let (unit, scale) =
        TIME[1..].iter().find(|(_, scale)| millis.is_multiple_of(*scale)).copied().unwrap_or(("ms", 1));
    if millis == 0 { "0s".to_owned() } else { format!("{}{unit}", millis / scale) }
}

/// A size in bytes from text: digits, then `B`, `KiB`, `MiB`, `GiB` or nothing.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = if unit.is_empty() { "B" } else { unit.trim_start_matches(' ') };
    let scale = BYTES.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// The text of a size in its largest whole unit.
pub fn show_size(value: u64) -> String {
    let (unit, scale) =
        BYTES.iter().find(|(_, scale)| value.is_multiple_of(*scale)).copied().unwrap_or(("B", 1));
    if value == 0 { "0B".to_owned() } else { format!("{}{unit}", value / scale) }
}

/// Seconds since the epoch from `2027-01-31` (the end of that day, UTC) or `2027-01-31T12:00:00Z`; `None` for anything else.
pub fn parse_date(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let numbers = |text: &str, between: char, lengths: [usize; 3]| -> Option<[u64; 3]> {
        let mut parts = text.split(between);
        let mut next = |length| {
            let part = parts.next().filter(|part| part.len() == length)?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
        };
        let found = [next(lengths[0])?, next(lengths[1])?, next(lengths[2])?];
        parts.next().is_none().then_some(found)
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let long = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || !(1..=long).contains(&day) {
        return None;
    }
    // Years counted from March, so that the leap day is the last of its year.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    let midnight = (days - 719_468) * 86_400;
    match time {
        None => Some(midnight + 86_400),
        Some(time) => {
            let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
            (hour < 24 && minute < 60 && second < 60).then_some(midnight + hour * 3600 + minute * 60 + second)
        }
    }
}

pub(super) fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "x-format": "duration", "pattern": "^([0-9]+(ms|s|m|h|d))+$" })
}

pub(super) fn size_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"], "x-format": "size", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB)?$" })
}

/// `#[serde(with)]` for a [`Duration`].
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::show_duration(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_duration(&text).ok_or_else(|| D::Error::custom("not a duration"))
    }
}

/// `#[serde(with)]` for an `Option<Duration>`.
pub(super) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        super::duration::deserialize(from).map(Some)
    }
}

/// `#[serde(with)]` for a size in bytes kept as `usize`.
pub(super) mod size {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(value: &usize, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::show_size(*value as u64))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        let bytes = match Written::deserialize(from)? {
            Written::Number(bytes) => Some(bytes),
            Written::Text(text) => super::parse_size(&text),
        };
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| D::Error::custom("not a size"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit_and_nothing_else_is() {
        let cases = [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("24h", Some(86_400_000)),
            ("2d", Some(172_800_000)),
            ("1h30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("", None),
            ("30", None),
            ("s", None),
            ("-5s", None),
            ("5 s", None),
            ("1.5s", None),
            ("5S", None),
            ("30sec", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
            ("5é", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_units_or_plain_bytes() {
        let cases = [
            ("4MiB", Some(4 << 20)),
            ("32KiB", Some(32 << 10)),
            ("1GiB", Some(1 << 30)),
            ("512B", Some(512)),
            ("512", Some(512)),
            ("4 MiB", Some(4 << 20)),
            ("4MB", None),
            ("4M", None),
            ("MiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("18446744073709551615GiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn shown_values_read_back_as_themselves() {
        for millis in [0, 1, 250, 1_000, 61_000, 3_600_000, 86_400_000, 5_400_000] {
            let value = Duration::from_millis(millis);
            assert_eq!(parse_duration(&show_duration(value)), Some(value));
        }
        for bytes in [0, 1, 1023, 1024, 1 << 20, 5 << 30] {
            assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
        assert_eq!(show_duration(Duration::from_secs(86_400)), "24h");
        assert_eq!(show_size(4 << 20), "4MiB");
    }

    #[test]
    fn dates_are_seconds_since_the_epoch_and_nonsense_is_none() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01", Some(86_400)),
            ("2000-02-29T12:30:01Z", Some(951_827_401)),
            ("2027-01-31", Some(1_801_440_000)),
            ("2026-11-30T01:30:00Z", Some(1_796_002_200)),
            ("2027-02-29", None),
            ("2027-13-01", None),
            ("2027-1-1", None),
            ("2027-01-01T00:00:00", None),
            ("2027-01-01T24:00:00Z", None),
            ("1969-12-31", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_date(text), want, "{text}");
        }
    }
}
