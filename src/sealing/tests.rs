//! What a sealed value promises, and what is refused.

use proptest::prelude::*;
use secrecy::SecretString;

use super::*;

fn material(byte: u8) -> KeyMaterial {
    KeyMaterial::from_bytes(vec![byte; 32]).expect("32 bytes")
}

fn ring(bytes: &[u8]) -> Keyring {
    Keyring::new(bytes.iter().map(|&byte| material(byte)).collect()).expect("distinct keys")
}

#[test]
fn what_is_sealed_opens_and_is_compact() {
    let ring = ring(&[1]);
    for purpose in Purpose::ALL {
        for plain in [&b""[..], b"\0", b"sixteen bytes 16", &[0xff; 5000]] {
            let sealed = ring.seal(purpose, b"alice", plain);
            assert_eq!(ring.open(purpose, b"alice", &sealed).as_deref(), Ok(plain), "{purpose:?}");
            assert_eq!(sealed.len(), ((plain.len() + OVERHEAD) * 4).div_ceil(3));
            assert!(sealed.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'), "{sealed}");
        }
    }
}

#[test]
fn what_is_for_one_purpose_opens_for_no_other() {
    let ring = ring(&[1]);
    for sealed_for in Purpose::ALL {
        let sealed = ring.seal(sealed_for, b"", b"plain");
        for opened_for in Purpose::ALL {
            let opened = ring.open(opened_for, b"", &sealed);
            assert_eq!(opened.is_ok(), sealed_for == opened_for, "{sealed_for:?} as {opened_for:?}");
            assert!(matches!(opened, Ok(_) | Err(SealError::Forged)));
        }
    }
}

#[test]
fn each_purpose_stands_where_its_key_is_sought() {
    for (index, purpose) in Purpose::ALL.into_iter().enumerate() {
        assert_eq!(purpose as usize, index);
        assert!(Purpose::ALL[..index].iter().all(|other| other.label() != purpose.label()));
    }
}

#[test]
fn other_associated_data_is_refused() {
    let ring = ring(&[1]);
    let sealed = ring.seal(Purpose::Cursor, b"alice", b"plain");
    for aad in [&b""[..], b"alic", b"alice\0", b"Alice", b"bob"] {
        assert_eq!(ring.open(Purpose::Cursor, aad, &sealed), Err(SealError::Forged));
    }
}

#[test]
fn every_changed_bit_is_refused() {
    let ring = ring(&[1]);
    let sealed =
        URL_SAFE_NO_PAD.decode(ring.seal(Purpose::RequestState, b"", b"plain text")).expect("base64");
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => SealError::Malformed,
            byte if byte < HEAD => SealError::UnknownKey,
            _ => SealError::Forged,
        };
        let opened = ring.open(Purpose::RequestState, b"", &URL_SAFE_NO_PAD.encode(changed));
        assert_eq!(opened, Err(expected), "bit {bit}");
    }
}

#[test]
fn every_changed_character_and_every_cut_is_refused() {
    let ring = ring(&[1]);
    // Two lengths that leave unused bits in the last character: other spellings of the same bytes are refused as well.
    for plain in [&b"a"[..], b"ab", b"abc"] {
        let sealed = ring.seal(Purpose::EventId, b"", plain);
        for at in 0..sealed.len() {
            for other in "AQgw_-z9=+/ .\0".chars().filter(|&c| !sealed[at..].starts_with(c)) {
                let changed = format!("{}{other}{}", &sealed[..at], &sealed[at + 1..]);
                assert!(ring.open(Purpose::EventId, b"", &changed).is_err(), "{changed}");
            }
            assert!(ring.open(Purpose::EventId, b"", &sealed[..at]).is_err());
        }
        assert!(ring.open(Purpose::EventId, b"", &format!("{sealed}A")).is_err());
        assert!(ring.open(Purpose::EventId, b"", &format!("{sealed}=")).is_err());
    }
}

#[test]
fn the_first_key_seals_and_all_open() {
    let (old, both, promoted, new) = (ring(&[1]), ring(&[1, 2]), ring(&[2, 1]), ring(&[2]));
    let of = |sealer: &Keyring| sealer.seal(Purpose::Vault, b"", b"token");
    let opens = |opener: &Keyring, sealed: &str| opener.open(Purpose::Vault, b"", sealed).map(drop);

    let (by_old, by_both, by_promoted) = (of(&old), of(&both), of(&promoted));
    for ring in [&old, &both, &promoted] {
        assert_eq!(opens(ring, &by_old), Ok(()));
        assert_eq!(opens(ring, &by_both), Ok(()), "a key that was added but not promoted does not seal");
    }
    for ring in [&both, &promoted, &new] {
        assert_eq!(opens(ring, &by_promoted), Ok(()));
    }
    assert_eq!(opens(&old, &by_promoted), Err(SealError::UnknownKey));
    assert_eq!(opens(&new, &by_old), Err(SealError::UnknownKey), "retired");
    assert!(promoted.is_current(&by_promoted) && !promoted.is_current(&by_old) && both.is_current(&by_old));
    assert!(!promoted.is_current("") && !promoted.is_current("?"));
}

#[test]
fn an_unknown_key_is_told_apart_from_a_forgery() {
    let (mine, other) = (ring(&[1]), Keyring::random());
    let mut sealed = URL_SAFE_NO_PAD.decode(other.seal(Purpose::Cursor, b"", b"x")).expect("base64");
    let open = |sealed: &[u8]| mine.open(Purpose::Cursor, b"", &URL_SAFE_NO_PAD.encode(sealed));
    assert_eq!(open(&sealed), Err(SealError::UnknownKey));
    sealed[1..HEAD].copy_from_slice(&mine.keys[0].id);
    assert_eq!(open(&sealed), Err(SealError::Forged), "another key that claims to be mine");
}

#[test]
fn sealing_twice_gives_two_values() {
    let ring = Keyring::random();
    assert_ne!(ring.seal(Purpose::RequestId, b"", b"1"), ring.seal(Purpose::RequestId, b"", b"1"));
}

/// Made by another implementation (Python's `cryptography`) from the description. Pods of two releases read each other's
/// values, and a vault outlives them all: this never changes within version 1.
#[test]
fn a_value_sealed_by_an_earlier_release_opens() {
    let sealed = "AQQRbNoAAQIDBAUGBwgJCgtmE25vvLeRhgvxbdHr-HAPsw0MVFpxqQ";
    assert_eq!(ring(&[1]).open(Purpose::Vault, b"alice", sealed).as_deref(), Ok(&b"a token"[..]));
}

#[test]
fn keys_are_read_as_people_write_them() {
    let id = |text: &str| {
        let material = KeyMaterial::from_text(&SecretString::from(text))?;
        Keyring::new(vec![material]).map(|ring| ring.keys[0].id)
    };
    let plain = KeyMaterial::from_bytes(vec![0xfb; 32]).and_then(|material| Keyring::new(vec![material]));
    let expected = plain.map(|ring| ring.keys[0].id);
    let standard = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";
    assert_eq!(id(standard), expected);
    assert_eq!(id(&format!("  {}\n", standard.trim_end_matches('='))), expected);
    assert_eq!(id(&standard.replace('+', "-").replace('/', "_")), expected);
    assert_eq!(id("not base64!"), Err(KeyError::Text));
    assert_eq!(id("c2hvcnQ="), Err(KeyError::Short));
    assert_eq!(id(""), Err(KeyError::Short));
}

#[test]
fn a_ring_has_a_key_and_none_twice() {
    assert_eq!(Keyring::new(vec![]).err(), Some(KeyError::None));
    assert_eq!(Keyring::new(vec![material(1), material(2), material(1)]).err(), Some(KeyError::Twice));
}

proptest! {
    #[test]
    fn any_bytes_come_back(aad: Vec<u8>, plain: Vec<u8>) {
        let ring = ring(&[1, 2]);
        let sealed = ring.seal(Purpose::Internal, &aad, &plain);
        prop_assert_eq!(ring.open(Purpose::Internal, &aad, &sealed), Ok(plain));
    }

    #[test]
    fn no_text_opens_or_panics(text in any::<String>(), bytes: Vec<u8>) {
        let ring = ring(&[1]);
        // Bytes that pass for our own up to the seal itself.
        let near = URL_SAFE_NO_PAD.encode([&[VERSION], &ring.keys[0].id[..], &bytes].concat());
        for text in [text, URL_SAFE_NO_PAD.encode(bytes), near] {
            prop_assert!(ring.open(Purpose::Cursor, b"", &text).is_err());
            ring.is_current(&text);
        }
    }
}
