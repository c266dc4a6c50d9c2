//! Connections that one address has open: one client must not have all that a pod can keep.

use super::address::Proxies;
use super::strangers::Neighbourhood;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The connections that are open, by whose they are. A trusted proxy has as many as it likes, for they are of many clients.
pub struct Neighbours {
    most: u32,
    proxies: Proxies,
    open: Mutex<HashMap<Neighbourhood, u32>>,
}

/// A connection among those of its address; dropped with it.
pub struct Neighbour(Option<(Arc<Neighbours>, Neighbourhood)>);

impl Neighbours {
    /// At most so many of each address; `None` where any number is.
    pub fn new(most: u32, proxies: Proxies) -> Option<Arc<Neighbours>> {
        (most > 0).then(|| Arc::new(Neighbours { most, proxies, open: Mutex::default() }))
    }

    /// `None`: it has as many as it may.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Neighbour> {
        if self.proxies.trusts(address.to_canonical()) {
            return Some(Neighbour(None));
        }
        let of = Neighbourhood::of(address, false);
        let mut open = self.open.lock().expect("no holder of the table panics");
        let count = open.entry(of).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Neighbour(Some((self.clone(), of))))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let Some((neighbours, of)) = self.0.take() else { return };
        let mut open = neighbours.open.lock().expect("no holder of the table panics");
        if let Some(count) = open.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_a_proxy_any_number() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap()], false);
        let neighbours = Neighbours::new(2, proxies.clone()).unwrap();
        let enter = |address: &str| neighbours.enter(address.parse().unwrap());
        let held = [enter("192.0.2.1"), enter("::ffff:192.0.2.1")];
        assert!(held.iter().all(Option::is_some) && enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        let many: Vec<_> = (0..9).map(|_| enter("10.0.0.1")).collect();
        assert!(many.iter().all(Option::is_some));
        drop(held);
        assert!(enter("192.0.2.1").is_some());
        drop(many);
        assert!(neighbours.open.lock().unwrap().is_empty(), "nothing is kept of who is gone");
        assert!(Neighbours::new(0, proxies).is_none());
    }
}
