//! A changed configuration taken over while the gateway serves. What cannot change under it is named in the log.

use super::links::Links;
use super::{House, Login, StartError, limits, rules};
use crate::config::{Config, ConfigError, Limits, Loaded, Timeouts, Watch};
use crate::edge::Gate;
use crate::lifecycle::Lifecycle;
use crate::telemetry::metrics;
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::signal::unix::Signal;

/// Takes changed configurations over.
pub struct Reload {
    /// The configuration that the process began with: what needs a restart is still as it says.
    started: Config,
    /// The one that was read last and could be used.
    last: Config,
    gates: Arc<ArcSwap<Gate>>,
    links: Arc<Links>,
    login: Arc<Login>,
    lifecycle: Lifecycle,
}

impl House {
    /// For a gateway that began with this configuration.
    pub fn reload(&self, config: &Config) -> Reload {
        Reload {
            started: config.clone(),
            last: config.clone(),
            gates: self.gates.clone(),
            links: self.links.clone(),
            login: self.login.clone(),
            lifecycle: self.lifecycle.clone(),
        }
    }
}

impl Reload {
    /// Reads the configuration again at each change of its files and each signal, until the pod leaves.
    pub async fn follow(
        mut self,
        mut files: Watch,
        mut hangups: Signal,
        load: impl Fn() -> Result<Loaded, ConfigError> + Send + 'static,
    ) {
        let leaving = self.lifecycle.leaving.clone();
        loop {
            let told = tokio::select! {
                () = leaving.cancelled() => return,
                () = files.changed() => false,
                Some(()) = hangups.recv() => true,
            };
            metrics().config_reloads.with_label_values(&[self.again(load(), told)]).inc();
        }
    }

    /// What came of one reading. `told`: secrets and certificates may be others though the configuration is the same.
    fn again(&mut self, loaded: Result<Loaded, ConfigError>, told: bool) -> &'static str {
        let kept = "the changed configuration cannot be used; the one before stays";
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(why) => {
                tracing::error!(%why, "{kept}");
                return "refused";
            }
        };
        for warning in &loaded.warnings {
            tracing::warn!(%warning, "a doubtful setting");
        }
        if loaded.config == self.last && !told {
            return "unchanged";
        }
        match self.take(loaded.config) {
            Ok(()) => {
                tracing::info!("the configuration was read again and is served");
                "applied"
            }
            Err(why) => {
                tracing::error!(%why, "{kept}");
                "refused"
            }
        }
    }

    /// Serves what this configuration says, as far as that can change. Errors: nothing has changed.
    fn take(&mut self, config: Config) -> Result<(), StartError> {
        let settings = fixed(&self.started, &config);
        if !settings.is_empty() {
            tracing::warn!(
                settings = settings.join(", "),
                "changed settings that need a restart are not taken over"
            );
        }
        let usable = self.usable(&config);
        let gate = self.gates.load_full();
        let before = gate.auth.clone();
        let (auth, site) = self.login.build(&usable, self.links.vault())?;
        let (limits, strangers) = limits::again(&usable, &gate)?;
        let gate = Gate { auth, site, limits, strangers, ..gate.ruled(rules::of(&usable)?) };
        let gate = Arc::new(gate);
        self.links.serve(&usable, &gate.routes)?;
        self.gates.store(gate);
        if config.auth != self.last.auth {
            before.retire();
        }
        self.last = config;
        Ok(())
    }

    /// The configuration with what needs a restart as it was.
    fn usable(&self, config: &Config) -> Config {
        let was = self.started.clone();
        Config {
            listen: was.listen,
            admin_listen: was.admin_listen,
            admin_token: was.admin_token,
            internal_listen: was.internal_listen,
            internal_address: was.internal_address,
            demo: was.demo,
            store: was.store,
            sessions: was.sessions,
            sealing: was.sealing,
            drain: was.drain,
            log: was.log,
            telemetry: was.telemetry,
            audit: was.audit,
            egress: was.egress,
            artifacts: was.artifacts,
            limits: Limits {
                header_bytes: was.limits.header_bytes,
                connections_per_address: was.limits.connections_per_address,
                ..config.limits
            },
            timeouts: Timeouts { header_read: was.timeouts.header_read, ..config.timeouts },
            ..config.clone()
        }
    }
}

/// The keys that differ and need a restart.
fn fixed(was: &Config, now: &Config) -> Vec<&'static str> {
    let differ = [
        ("listen", was.listen != now.listen),
        ("admin_listen", was.admin_listen != now.admin_listen),
        ("admin_token", was.admin_token != now.admin_token),
        ("internal_listen", was.internal_listen != now.internal_listen),
        ("internal_address", was.internal_address != now.internal_address),
        ("demo", was.demo != now.demo),
        ("store", was.store != now.store),
        ("sessions", was.sessions != now.sessions),
        ("sealing", was.sealing != now.sealing),
        ("drain", was.drain != now.drain),
        ("log", was.log != now.log),
        ("telemetry", was.telemetry != now.telemetry),
        ("audit", was.audit != now.audit),
        ("egress", was.egress != now.egress),
        ("artifacts", was.artifacts != now.artifacts),
        ("limits.header_bytes", was.limits.header_bytes != now.limits.header_bytes),
        (
            "limits.connections_per_address",
            was.limits.connections_per_address != now.limits.connections_per_address,
        ),
        ("timeouts.header_read", was.timeouts.header_read != now.timeouts.header_read),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_needs_a_restart_is_named_and_nothing_else() {
        let was = Config::default();
        assert_eq!(fixed(&was, &was), Vec::<&str>::new());
        let mut now = was.clone();
        now.listen.set_port(1);
        now.timeouts.call = Duration::from_secs(1);
        now.timeouts.header_read = Duration::from_secs(1);
        now.allowed_hosts.push("a.example".into());
        assert_eq!(fixed(&was, &now), ["listen", "timeouts.header_read"]);
    }
}
