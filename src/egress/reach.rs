//! Which addresses a URL of a stranger may lead to, judged on the address that is connected to and not on its name.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use ipnet::IpNet;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Addresses that are not public and may be reached all the same, from the configuration. Plain HTTP is spoken only where
/// there are such.
#[derive(Debug, Default, Clone)]
pub struct Reach {
    pub inside: Vec<IpNet>,
}

impl Reach {
    pub fn admits(&self, ip: IpAddr) -> bool {
        // An IPv4 address in IPv6 clothes leads where the IPv4 address does.
        let ip = ip.to_canonical();
        is_public(ip) || self.inside.iter().any(|net| net.contains(&ip))
    }

    /// Whether plain HTTP is spoken.
    pub fn plain(&self) -> bool {
        !self.inside.is_empty()
    }
}

/// Neither this host nor its networks nor anything reserved (RFC 6890 and IANA's special-purpose registries).
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        // Shared between carriers, where clouds keep their metadata as well (RFC 6598).
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    // Ways into IPv4: translated (RFC 6052) and 6to4 (RFC 3056).
    let embedded = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(w, x, y, z)
    };
    match (a, b) {
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => return is_public_v4(embedded(g, h)),
        (0x2002, _) => return is_public_v4(embedded(b, c)),
        _ => {}
    }
    // Global unicast is 2000::/3; of it, Teredo, ORCHID, benchmarks and documentation lead nowhere.
    let global = a & 0xe000 == 0x2000;
    let special = (a == 0x2001 && (b < 0x200 || b == 0xdb8)) || (a == 0x3fff && b < 0x1000);
    global && !special
}

/// Who says which addresses a name has.
#[derive(Clone)]
pub enum Names {
    System(GaiResolver),
    /// Tests say it: a name server of a stranger may say another thing each time.
    #[cfg(test)]
    Told(Arc<Told>),
}

#[cfg(test)]
type Told = dyn Fn(&str) -> Vec<SocketAddr> + Send + Sync;

/// Resolves names to the addresses that may be connected to.
#[derive(Clone)]
pub struct Resolver {
    names: Names,
    reach: Option<Arc<Reach>>,
}

impl Resolver {
    pub fn guarded(names: Names, reach: Arc<Reach>) -> Resolver {
        Resolver { names, reach: Some(reach) }
    }

    pub fn free(names: Names) -> Resolver {
        Resolver { names, reach: None }
    }
}

/// All addresses of a name are inside.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address that may be reached")]
struct Inside;

/// Whether a request failed because of where it led.
pub fn refused(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if error.is::<Inside>() || inner.is_some_and(|inner| inner.is::<Inside>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.names {
            Names::System(system) => system.poll_ready(context),
            #[cfg(test)]
            Names::Told(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = match &mut self.names {
            Names::System(system) => system.call(name).map_ok(|found| found.collect()).boxed(),
            #[cfg(test)]
            Names::Told(told) => std::future::ready(Ok(told(name.as_str()))).boxed(),
        };
        let reach = self.reach.clone();
        async move {
            let found: Vec<SocketAddr> = resolving.await?;
            let Some(reach) = reach else { return Ok(found.into_iter()) };
            let admitted: Vec<_> = found.into_iter().filter(|address| reach.admits(address.ip())).collect();
            match admitted.is_empty() {
                true => Err(io::Error::new(io::ErrorKind::PermissionDenied, Inside)),
                false => Ok(admitted.into_iter()),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_reached_in_whatever_clothes() {
        let reach = Reach::default();
        let inside = [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "0.0.0.0",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
            "3fff::1",
        ];
        for ip in inside {
            assert!(!reach.admits(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "93.184.216.34",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "::ffff:1.1.1.1",
            "100.128.0.1",
        ] {
            assert!(reach.admits(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn what_the_operator_admits_is_reached_in_both_forms() {
        let reach = Reach { inside: vec!["127.0.0.0/8".parse().unwrap()] };
        assert!(
            reach.admits("127.0.0.1".parse().unwrap()) && reach.admits("::ffff:127.0.0.1".parse().unwrap())
        );
        assert!(!reach.admits("10.0.0.1".parse().unwrap()) && !Reach::default().plain());
    }
}
