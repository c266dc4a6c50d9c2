//! The first line of a pod: how often an address may ask without a login. Who shows a valid token is never counted here, for whole
//! services and offices come from one address.

use super::Pace;
use super::address::Proxies;
use crate::telemetry::metrics;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use http::{HeaderMap, Request};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tower_governor::GovernorError;
use tower_governor::governor::{GovernorConfig, GovernorConfigBuilder};
use tower_governor::key_extractor::KeyExtractor;

/// Addresses that are told apart; when there are more, new ones share a place with their neighbours.
const MOST: usize = 100_000;
/// How often addresses are forgotten that may ask as often as ever.
const SWEEP: Duration = Duration::from_secs(1);

/// Who is counted as one: an IPv4 address, or an IPv6 network of /64, which is what one subscriber has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Neighbourhood {
    V4(u32),
    V6(u64),
    /// Of a flood: a /16, or a /32 of IPv6.
    Wide4(u16),
    Wide6(u32),
}

impl Neighbourhood {
    pub(super) fn of(address: IpAddr, flooded: bool) -> Neighbourhood {
        match (address.to_canonical(), flooded) {
            (IpAddr::V4(ip), false) => Neighbourhood::V4(ip.to_bits()),
            (IpAddr::V4(ip), true) => Neighbourhood::Wide4((ip.to_bits() >> 16) as u16),
            (IpAddr::V6(ip), false) => Neighbourhood::V6((ip.to_bits() >> 64) as u64),
            (IpAddr::V6(ip), true) => Neighbourhood::Wide6((ip.to_bits() >> 96) as u32),
        }
    }
}

/// By the peer that the listener put into the request.
#[derive(Clone, Copy, Debug)]
struct ByPeer;

impl KeyExtractor for ByPeer {
    type Key = Neighbourhood;

    fn extract<T>(&self, request: &Request<T>) -> Result<Neighbourhood, GovernorError> {
        let peer = request.extensions().get::<IpAddr>().ok_or(GovernorError::UnableToExtractKey)?;
        Ok(Neighbourhood::of(*peer, false))
    }
}

/// Counts who asks without a login.
pub struct Strangers {
    pace: Pace,
    proxies: Proxies,
    counted: GovernorConfig<ByPeer, NoOpMiddleware>,
    swept: Mutex<Instant>,
    /// Asked since then: no more addresses than that can have come.
    since: AtomicU32,
    kept: AtomicU32,
}

impl Strangers {
    pub fn new(pace: Pace, proxies: Proxies) -> Strangers {
        let counted = GovernorConfigBuilder::default()
            .key_extractor(ByPeer)
            .period(pace.every.max(Duration::from_micros(1)))
            .burst_size(pace.burst.max(1))
            .finish()
            .expect("neither the period nor the burst is zero");
        let (since, kept) = (AtomicU32::new(0), AtomicU32::new(0));
        Strangers { pace, proxies, counted, swept: Mutex::new(Instant::now()), since, kept }
    }

    /// Whether these are its settings.
    pub fn is(&self, pace: Pace, proxies: &Proxies) -> bool {
        self.pace == pace && self.proxies == *proxies
    }

    pub fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// Counts a request without a login. Errors: it is one too many; after so many seconds another may be answered.
    pub fn count(&self, peer: SocketAddr, map: &HeaderMap) -> Result<(), u64> {
        let address = self.proxies.client(peer, map);
        let known = self.kept.load(Ordering::Relaxed) + self.since.fetch_add(1, Ordering::Relaxed);
        if known as usize >= MOST || self.since.load(Ordering::Relaxed) >= 1024 {
            self.sweep();
        }
        let flooded = self.kept.load(Ordering::Relaxed) as usize >= MOST;
        let of = Neighbourhood::of(address, flooded);
        self.counted.limiter().check_key(&of).map_err(|until| {
            metrics().limited.with_label_values(&["address", "unauthenticated"]).inc();
            let wait = until.wait_time_from(DefaultClock::default().now());
            wait.as_secs() + 1
        })
    }

    fn sweep(&self) {
        let Ok(mut swept) = self.swept.try_lock() else { return };
        if swept.elapsed() < SWEEP && (self.since.load(Ordering::Relaxed) as usize) < MOST {
            return;
        }
        let limiter = self.counted.limiter();
        limiter.retain_recent();
        limiter.shrink_to_fit();
        self.kept.store(u32::try_from(limiter.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        *swept = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn strangers(burst: u32) -> Strangers {
        let pace = Pace { every: Duration::from_secs(3600), burst };
        Strangers::new(pace, Proxies::new(Vec::new(), false))
    }

    fn at(address: impl Into<IpAddr>) -> SocketAddr {
        SocketAddr::new(address.into(), 1)
    }

    #[test]
    fn one_address_too_often_is_refused_and_its_neighbour_is_not() {
        let strangers = strangers(3);
        let map = HeaderMap::new();
        for n in 0..5 {
            assert_eq!(strangers.count(at(Ipv4Addr::new(192, 0, 2, 1)), &map).is_ok(), n < 3);
        }
        assert!(strangers.count(at(Ipv4Addr::new(192, 0, 2, 2)), &map).is_ok());
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_and_mapped_addresses_are_what_they_map() {
        let strangers = strangers(2);
        let map = HeaderMap::new();
        let v6 = |net: u16, host: u16| at(Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host));
        assert!(strangers.count(v6(1, 1), &map).is_ok() && strangers.count(v6(1, 2), &map).is_ok());
        assert!(strangers.count(v6(1, 3), &map).is_err() && strangers.count(v6(2, 1), &map).is_ok());
        let four = Ipv4Addr::new(192, 0, 2, 9);
        assert!(strangers.count(at(four), &map).is_ok());
        assert!(strangers.count(at(four.to_ipv6_mapped()), &map).is_ok());
        assert!(strangers.count(at(four), &map).is_err());
    }

    #[test]
    fn a_flood_of_addresses_takes_bounded_memory() {
        let strangers = strangers(10);
        let map = HeaderMap::new();
        for n in 0..3 * MOST as u32 {
            let _ = strangers.count(at(Ipv4Addr::from_bits(0x0a00_0000 + n)), &map);
        }
        let kept = strangers.counted.limiter().len();
        assert!(kept <= 2 * MOST + 1, "{kept}");
    }
}
