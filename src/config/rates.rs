//! How much of the gateway one caller may use: rates, quotas by day, calls in flight. Says nothing of how it is counted.

use std::{fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How many requests may be made in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Requests of one address (IPv6: of one /64) that are answered 401, and to the login's own pages; counted in each pod.
    /// Who shows a valid token is never limited by address.
    #[schemars(schema_with = "allowance_schema")]
    pub unauthenticated: Unauthenticated,
    /// What happens to requests that have a limit while the store is away: `open` counts them in each pod by itself, by the whole
    /// limit; `closed` answers 503.
    pub when_store_away: WhenStoreAway,
    /// Requests of one principal, over all pods.
    pub principal: Classes,
    /// Requests of one tenant, over all pods.
    pub tenant: Classes,
    /// Requests to one profile, over all pods; a profile's own `rates` go before.
    pub profile: Classes,
}

/// Limits by what requests do. Each is `50/s`, `600/m` or `1000/h`, and may say how many can come at once: `600/m burst 100`;
/// else that is what comes in a second, or 10 if that is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Classes {
    /// All requests together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "allowance_schema")]
    pub all: Option<Allowance>,
    /// `tools/call`, and methods that are not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "allowance_schema")]
    pub call: Option<Allowance>,
    /// Reading of resources, prompts, completions and tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "allowance_schema")]
    pub read: Option<Allowance>,
    /// Lists, and `server/discover`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "allowance_schema")]
    pub list: Option<Allowance>,
    /// All else: `initialize`, `ping`, subscriptions, opening of streams, notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "allowance_schema")]
    pub control: Option<Allowance>,
}

/// What happens to requests that have a limit while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenStoreAway {
    #[default]
    Open,
    Closed,
}

/// Calls (`tools/call`) in a day of UTC, over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Most calls of one principal in a day; 0: any number.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub principal: u32,
    /// Most calls of one tenant in a day; 0: any number.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub tenant: u32,
}

/// Calls in flight in one pod. Beside these, no tenant gets all of `limits.concurrent_calls` or of an upstream's `max_concurrent`
/// while there are others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Concurrency {
    /// Most calls of one principal in flight in one pod; 0: any number.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub principal: u32,
    /// Most calls of one tenant in flight in one pod; 0: any number.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub tenant: u32,
}

/// Which header of a trusted proxy names the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyHeader {
    #[default]
    XForwardedFor,
    Forwarded,
}

/// A rate and a burst, from text such as `50/s` or `600/m burst 100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Allowance {
    units: u32,
    per: Per,
    burst: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Per {
    Second,
    Minute,
    Hour,
}

/// The most that can come in a second: above it, whole microseconds between two units are too coarse.
const MOST: u32 = 10_000;
const MOST_AT_ONCE: u32 = 10_000_000;
const LEAST_BURST: u32 = 10;

impl Allowance {
    /// The time in which one unit comes back, in whole microseconds.
    pub fn every(&self) -> Duration {
        Duration::from_micros(self.per.micros() / u64::from(self.units))
    }

    /// The most units that can be had at once.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or_else(|| {
            let second = u64::from(self.units) * 1_000_000 / self.per.micros();
            u32::try_from(second).unwrap_or(MOST).max(LEAST_BURST)
        })
    }
}

impl Per {
    fn micros(self) -> u64 {
        match self {
            Per::Second => 1_000_000,
            Per::Minute => 60_000_000,
            Per::Hour => 3_600_000_000,
        }
    }

    fn letter(self) -> char {
        match self {
            Per::Second => 's',
            Per::Minute => 'm',
            Per::Hour => 'h',
        }
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Allowance, String> {
        let form = || format!("expected a rate such as 50/s, 600/m or 600/m burst 100, found {text:?}");
        let mut words = text.split_whitespace();
        let (units, per) = words.next().and_then(|rate| rate.split_once('/')).ok_or_else(form)?;
        let units: u32 = units.parse().map_err(|_| form())?;
        let per = match per {
            "s" => Per::Second,
            "m" => Per::Minute,
            "h" => Per::Hour,
            _ => return Err(form()),
        };
        let burst = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some("burst"), Some(burst), None) => Some(burst.parse::<u32>().map_err(|_| form())?),
            _ => return Err(form()),
        };
        if units == 0 || u64::from(units) * 1_000_000 > u64::from(MOST) * per.micros() {
            return Err(format!("a rate is at least one and at most {MOST} a second"));
        }
        if burst.is_some_and(|burst| burst == 0 || burst > MOST_AT_ONCE) {
            return Err(format!("a burst is at least 1 and at most {MOST_AT_ONCE}"));
        }
        Ok(Allowance { units, per, burst })
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.units, self.per.letter())?;
        self.burst.map_or(Ok(()), |burst| write!(f, " burst {burst}"))
    }
}

impl TryFrom<String> for Allowance {
    type Error = String;

    fn try_from(text: String) -> Result<Allowance, String> {
        text.parse()
    }
}

impl From<Allowance> for String {
    fn from(allowance: Allowance) -> String {
        allowance.to_string()
    }
}

/// The limit of an address: unlike others it is never without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unauthenticated(pub Allowance);

impl Default for Unauthenticated {
    /// Generous, for whole services ask for their users from few addresses.
    fn default() -> Self {
        Unauthenticated(Allowance { units: 50, per: Per::Second, burst: Some(200) })
    }
}

pub(super) fn allowance_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "x-format": "rate", "pattern": "^[0-9]+/[smh]( burst [0-9]+)?$" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written_and_written_as_it_was_read() {
        let table = [
            ("50/s", 20_000, 50),
            ("600/m", 100_000, 10),
            ("600/m burst 100", 100_000, 100),
            ("1/h", 3_600_000_000, 10),
            ("10000/s", 100, 10_000),
            ("600000/m burst 1", 100, 1),
        ];
        for (text, every, burst) in table {
            let read: Allowance = text.parse().unwrap();
            assert_eq!((read.every().as_micros(), read.burst()), (every, burst), "{text}");
            assert_eq!(read.to_string(), text);
        }
        for bad in
            ["", "50", "50/d", "0/s", "10001/s", "-1/s", "1/s burst", "1/s burst 0", "1/s burst 1 2", "1 /s"]
        {
            assert!(bad.parse::<Allowance>().is_err(), "{bad}");
        }
    }
}
