//! What callers may use, from the configuration.

use super::StartError;
use crate::config::{Allowance, Classes, Config, DEFAULT_PROFILE, ProxyHeader, WhenStoreAway};
use crate::edge::Gate;
use crate::limits::{Limits, Most, Outage, Pace, Paces, Proxies, Settings, Strangers};
use crate::store::Store;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// The limits of callers; `None` where there are none.
pub(super) fn of(config: &Config, store: &Arc<dyn Store>, tasks: &TaskTracker) -> Option<Arc<Limits>> {
    Limits::new(settings(config), store.clone(), tasks.clone()).map(Arc::new)
}

/// The first line, for requests without a login.
pub(super) fn strangers(config: &Config) -> Result<Strangers, StartError> {
    Ok(Strangers::new(pace(config.rates.unauthenticated.0), proxies(config)?))
}

/// Both for a changed configuration. What has not changed goes on counting.
pub(super) fn again(
    config: &Config,
    gate: &Gate,
) -> Result<(Option<Arc<Limits>>, Arc<Strangers>), StartError> {
    let settings = settings(config);
    let limits = match &gate.limits {
        Some(limits) if *limits.settings() == settings => Some(limits.clone()),
        _ => Limits::new(settings, gate.store.clone(), gate.tasks.clone()).map(Arc::new),
    };
    let same = gate.strangers.is(pace(config.rates.unauthenticated.0), &proxies(config)?);
    let strangers = if same { gate.strangers.clone() } else { Arc::new(strangers(config)?) };
    Ok((limits, strangers))
}

fn settings(config: &Config) -> Settings {
    let Config { rates, quotas, concurrency, .. } = config;
    let profiles = config.served_profiles().into_iter().map(|(name, profile, _)| {
        let (own, all) = (profile.rates, rates.profile);
        let classes = Classes {
            all: own.all.or(all.all),
            call: own.call.or(all.call),
            read: own.read.or(all.read),
            list: own.list.or(all.list),
            control: own.control.or(all.control),
        };
        // As it is mounted.
        let name = if name == DEFAULT_PROFILE { "" } else { name };
        (name.to_owned(), paces(classes))
    });
    Settings {
        principal: paces(rates.principal),
        tenant: paces(rates.tenant),
        profiles: profiles.collect(),
        quotas: most(quotas.principal, quotas.tenant),
        seats: most(concurrency.principal, concurrency.tenant),
        outage: match rates.when_store_away {
            WhenStoreAway::Open => Outage::Open,
            WhenStoreAway::Closed => Outage::Closed,
        },
        shared: config.store.redis_url.is_some(),
    }
}

fn most(principal: u32, tenant: u32) -> Most {
    let some = |most: u32| (most > 0).then_some(most);
    Most { principal: some(principal), tenant: some(tenant) }
}

fn paces(classes: Classes) -> Paces {
    let Classes { all, call, read, list, control } = classes;
    Paces { all: all.map(pace), classes: [call, read, list, control].map(|class| class.map(pace)) }
}

fn pace(allowance: Allowance) -> Pace {
    Pace { every: allowance.every(), burst: allowance.burst() }
}

fn proxies(config: &Config) -> Result<Proxies, StartError> {
    let network = |(n, text): (usize, &String)| {
        text.parse().map_err(|_| StartError::Setting {
            key: format!("trusted_proxies[{n}]"),
            why: format!("{text:?} is no network"),
        })
    };
    let trusted = config.trusted_proxies.iter().enumerate().map(network).collect::<Result<_, _>>()?;
    Ok(Proxies::new(trusted, config.trusted_proxies_header == ProxyHeader::Forwarded))
}
