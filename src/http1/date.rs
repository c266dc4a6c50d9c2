//! `Date` (RFC 9110 6.6.1), written anew once a second.

use crate::clock;
use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

/// Its length is the same at all times.
const LENGTH: usize = 29;

thread_local! {
    /// The second that was written last, and its text.
    static WRITTEN: RefCell<(u64, [u8; LENGTH])> = const { RefCell::new((u64::MAX, [0; LENGTH])) };
}

/// Hands out the time as it is now.
pub(super) fn with_now<T>(take: impl FnOnce(&[u8]) -> T) -> T {
    let second = clock::unix_ms() / 1000;
    WRITTEN.with_borrow_mut(|(written, text)| {
        if *written != second {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            text.copy_from_slice(date.as_bytes());
            *written = second;
        }
        take(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_the_present_second_in_the_form_of_http() {
        let text = with_now(|text| String::from_utf8(text.to_vec()).unwrap());
        let told = httpdate::parse_http_date(&text).unwrap();
        assert!(told.elapsed().unwrap() < Duration::from_secs(60));
        assert_eq!(httpdate::fmt_http_date(told), text);
    }
}
