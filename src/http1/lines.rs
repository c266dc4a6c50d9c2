//! The lines of a head, written.

use bytes::{BufMut, BytesMut};
use http::HeaderName;

/// Writes one header.
pub fn line(out: &mut BytesMut, name: &HeaderName, value: &[u8]) {
    let name = name.as_str().as_bytes();
    out.reserve(name.len() + value.len() + 4);
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

/// Writes one whose value is a number.
pub fn number_line(out: &mut BytesMut, name: &HeaderName, value: u64) {
    // As many digits as the largest has.
    let (mut digits, mut at, mut left) = ([0; 20], 20, value);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    line(out, name, &digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_LENGTH;

    #[test]
    fn a_number_is_written_as_it_is_read() {
        for number in [0, 7, 10, 99, 12_345, u64::MAX] {
            let mut out = BytesMut::new();
            number_line(&mut out, &CONTENT_LENGTH, number);
            assert_eq!(out, format!("content-length: {number}\r\n"));
        }
    }
}
