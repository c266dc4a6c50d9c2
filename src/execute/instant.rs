//! Instants and spans of time as programs write them: RFC 3339, days, `30d`.

/// Seconds since 1970, UTC, and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    pub seconds: i64,
    pub nanos: u32,
}

impl Instant {
    /// `2026-11-30T01:30:00Z`, with a fraction and an offset if it has them, or a day alone: its first instant, UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let days = day(text.get(..10)?)?;
        let rest = &text[10..];
        if rest.is_empty() {
            return Some(Self { seconds: days * 86_400, nanos: 0 });
        }
        let time = rest.strip_prefix(['T', 't', ' '])?;
        let bytes = time.as_bytes();
        if bytes.len() < 9 || bytes[2] != b':' || bytes[5] != b':' {
            return None;
        }
        let (hour, minute, second) = (two(time, 0)?, two(time, 3)?, two(time, 6)?);
        // A leap second is the instant before the next minute.
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (nanos, zone) = match time[8..].strip_prefix('.') {
            None => (0, &time[8..]),
            Some(fraction) => {
                let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
                let shown = fraction.get(..digits.min(9)).filter(|shown| !shown.is_empty())?;
                (format!("{shown:0<9}").parse().ok()?, &fraction[digits..])
            }
        };
        let offset = match zone.as_bytes() {
            [b'Z' | b'z'] => 0,
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let (hours, minutes) = (two(zone, 1)?, two(zone, 4)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                (hours * 3_600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return None,
        };
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second.min(59) - offset;
        Some(Self { seconds, nanos })
    }

    /// RFC 3339, UTC, with a fraction only where there is one.
    pub fn rfc3339(self) -> String {
        let (year, month, day) = date(self.seconds.div_euclid(86_400));
        let second = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let fraction = match self.nanos {
            0 => String::new(),
            nanos => format!(".{}", format!("{nanos:09}").trim_end_matches('0')),
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

/// Whether it is a day, `2026-11-30`.
pub fn is_day(text: &str) -> bool {
    text.len() == 10 && day(text).is_some()
}

/// Seconds of `45s`, `30m`, `12h`, `30d`, `2w`; at most a hundred years.
pub fn span(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|seconds| *seconds <= 36_525 * 86_400)
}

fn two(text: &str, at: usize) -> Option<i64> {
    let digits = text.get(at..at + 2)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Days since 1970 of a day of the Gregorian calendar.
fn day(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = two(text, 0)? * 100 + two(text, 2)?;
    let (month, day) = (two(text, 5)?, two(text, 8)?);
    if !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    // Years begin in March, so that the leap day is the last.
    let shifted = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    // A day that the month does not have is another day.
    (date(days) == (year, month, day)).then_some(days)
}

/// Year, month and day of days since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_normalised_to_utc() {
        let cases = [
            ("1970-01-01", "1970-01-01T00:00:00Z"),
            ("2026-11-30T01:30:00+02:00", "2026-11-29T23:30:00Z"),
            ("2024-02-29T23:59:60.250Z", "2024-02-29T23:59:59.25Z"),
            ("1969-12-31t23:59:59z", "1969-12-31T23:59:59Z"),
        ];
        for (text, want) in cases {
            assert_eq!(Instant::parse(text).map(Instant::rfc3339).as_deref(), Some(want), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2025-02-29",
            "2026-1-1",
            "2026-01-01T",
            "2026-01-01T00:00:00",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00+1",
            "\u{e9}026-01-01",
            "2026-01-01T00:00:00.Z",
        ] {
            assert_eq!(Instant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        assert_eq!((span("30d"), span("2w"), span("0s")), (Some(2_592_000), Some(1_209_600), Some(0)));
        for text in ["", "d", "30", "-1d", "1.5h", "1y", "99999999999999999999d", "30000w", "1\u{e9}"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
