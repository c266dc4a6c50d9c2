//! From whom a request comes, by address: the peer, or whom a trusted proxy names. Who is not trusted cannot choose their address.

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// The proxies whose word is taken for the address of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    trusted: Vec<IpNet>,
    /// `Forwarded` (RFC 7239) in place of `X-Forwarded-For`.
    forwarded: bool,
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl Proxies {
    /// Those in the networks of `trusted`.
    pub fn new(trusted: Vec<IpNet>, forwarded: bool) -> Proxies {
        Proxies { trusted, forwarded }
    }

    /// The client's address. The header is read from its end: each proxy adds whom it heard from, and the first that is not
    /// trusted is the client, whatever it wrote before.
    pub fn client(&self, peer: SocketAddr, map: &HeaderMap) -> IpAddr {
        let mut at = peer.ip().to_canonical();
        if self.trusted.is_empty() {
            return at;
        }
        let name = if self.forwarded { header::FORWARDED } else { X_FORWARDED_FOR };
        for value in map.get_all(name).into_iter().collect::<Vec<_>>().into_iter().rev() {
            let Ok(text) = value.to_str() else { return at };
            for hop in text.rsplit(',') {
                if !self.trusts(at) {
                    return at;
                }
                match self.named(hop) {
                    Some(address) => at = address,
                    // Nobody, or somebody who is not to be known: whoever said so answers for them.
                    None => return at,
                }
            }
        }
        at
    }

    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    fn named(&self, hop: &str) -> Option<IpAddr> {
        let hop = match self.forwarded {
            false => hop,
            true => hop.split(';').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                key.trim().eq_ignore_ascii_case("for").then_some(value)
            })?,
        };
        let hop = hop.trim().trim_matches('"');
        let bare = hop.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse().or_else(|_| hop.parse().map(|with_port: SocketAddr| with_port.ip()));
        address.ok().map(|address: IpAddr| address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &[&str], forwarded: bool, peer: &str, headers: &[&str]) -> String {
        let proxies = Proxies::new(trusted.iter().map(|text| text.parse().unwrap()).collect(), forwarded);
        let name = if forwarded { header::FORWARDED } else { X_FORWARDED_FOR };
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(name.clone(), value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn the_client_is_the_first_from_the_end_whom_nobody_vouches_for() {
        let ours = &["10.0.0.0/8", "fd00::/8"][..];
        let table: &[(&[&str], &str, &[&str], &str)] = &[
            // Whoever is no proxy of ours says what they like.
            (ours, "203.0.113.7:1", &["10.0.0.1"], "203.0.113.7"),
            (&[], "10.0.0.1:1", &["203.0.113.7"], "10.0.0.1"),
            (ours, "10.0.0.1:1", &["203.0.113.7"], "203.0.113.7"),
            (ours, "10.0.0.1:1", &["1.2.3.4, 203.0.113.7"], "203.0.113.7"),
            (ours, "10.0.0.1:1", &["1.2.3.4, 203.0.113.7, 10.2.0.1"], "203.0.113.7"),
            (ours, "10.0.0.1:1", &["1.2.3.4", "203.0.113.7", "10.2.0.1"], "203.0.113.7"),
            (ours, "10.0.0.1:1", &["10.9.9.9, 10.2.0.1"], "10.9.9.9"),
            (ours, "10.0.0.1:1", &["203.0.113.7, unknown, 10.2.0.1"], "10.2.0.1"),
            (ours, "10.0.0.1:1", &[""], "10.0.0.1"),
            (ours, "10.0.0.1:1", &["203.0.113.7:4711"], "203.0.113.7"),
            (ours, "[fd00::1]:1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            (ours, "[fd00::1]:1", &["2001:db8::7"], "2001:db8::7"),
            (ours, "[::ffff:10.0.0.1]:1", &["::ffff:203.0.113.7"], "203.0.113.7"),
            (&["10.0.0.1/32"], "10.0.0.1:1", &["203.0.113.7, 10.0.0.2"], "10.0.0.2"),
        ];
        for (trusted, peer, headers, want) in table {
            assert_eq!(client(trusted, false, peer, headers), *want, "{peer} {headers:?}");
        }
    }

    #[test]
    fn forwarded_is_read_where_it_is_what_the_proxy_writes() {
        let table = [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=1.1.1.1, For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=1.1.1.1, for=_hidden", "10.0.0.1"),
            ("by=10.0.0.1", "10.0.0.1"),
        ];
        for (value, want) in table {
            assert_eq!(client(&["10.0.0.0/8"], true, "10.0.0.1:1", &[value]), want, "{value}");
        }
    }
}
