//! An audit event as it is written. What it has: see docs/operations.md.

use super::{Arguments, Event, Target};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest name or URI that is written, in characters: they are the client's.
const LONGEST: usize = 256;

/// One line.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    #[serde(serialize_with = "time")]
    time: SystemTime,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oauth_client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
    profile: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_omitted_bytes: Option<usize>,
}

impl Line<'_> {
    pub(super) fn event(&self) -> &'static str {
        self.event
    }
}

impl Event {
    pub(super) fn at(&self) -> SystemTime {
        match self {
            Event::Call(at, _) | Event::Refused(at, _) => *at,
        }
    }

    pub(super) fn line(&self) -> Line<'_> {
        let blank = Line {
            time: self.at(),
            event: "call",
            tenant: None,
            issuer: None,
            subject: None,
            client: None,
            oauth_client: None,
            user_agent: None,
            profile: "",
            era: None,
            version: None,
            transport: None,
            session: None,
            method: None,
            tool: None,
            prompt: None,
            uri: None,
            upstream: None,
            outcome: "",
            status: None,
            code: None,
            why: None,
            bytes_in: None,
            bytes_out: None,
            ms: None,
            trace_id: None,
            arguments: None,
            arguments_omitted_bytes: None,
        };
        match self {
            Event::Call(_, call) => {
                let who = &*call.who;
                let (mut tool, mut prompt, mut uri) = (None, None, None);
                match &call.target {
                    Some(Target::Tool(name)) => tool = Some(bounded(name)),
                    Some(Target::Prompt(name)) => prompt = Some(bounded(name)),
                    Some(Target::Uri(name)) => uri = Some(bounded(without_query(name))),
                    None => {}
                }
                let (arguments, omitted) = match &call.arguments {
                    Some(Arguments::Text(text)) => (serde_json::from_str(text).ok(), None),
                    Some(Arguments::Omitted(bytes)) => (None, Some(*bytes)),
                    None => (None, None),
                };
                Line {
                    tenant: Some(who.tenant()),
                    issuer: Some(who.issuer()).filter(|issuer| !issuer.is_empty()),
                    subject: Some(who.subject()),
                    client: who.client(),
                    oauth_client: who.oauth_client(),
                    profile: profile(who.profile()),
                    era: Some(if who.is_modern() { "modern" } else { "legacy" }),
                    version: Some(who.version()),
                    transport: Some(call.transport),
                    session: who.session(),
                    method: Some(call.method),
                    tool,
                    prompt,
                    uri,
                    upstream: call.upstream.as_ref().map(|upstream| upstream.id()),
                    outcome: call.outcome,
                    code: call.code,
                    bytes_in: Some(call.bytes_in),
                    bytes_out: Some(call.bytes_out),
                    ms: Some(call.took.as_micros() as f64 / 1e3),
                    trace_id: call.trace.as_deref(),
                    arguments,
                    arguments_omitted_bytes: omitted,
                    ..blank
                }
            }
            Event::Refused(_, turned) => Line {
                event: "refused",
                tenant: turned.principal.as_ref().map(|(tenant, _)| &**tenant),
                subject: turned.principal.as_ref().map(|(_, subject)| &**subject),
                profile: profile(&turned.profile),
                user_agent: turned.agent.as_deref(),
                outcome: match turned.status {
                    401 => "unauthorized",
                    403 => "forbidden",
                    404 => "unknown_profile",
                    429 => "rate_limited",
                    _ => "refused",
                },
                status: Some(turned.status),
                why: Some(turned.why),
                ..blank
            },
        }
    }

    /// Appends it as a line.
    pub(super) fn write(&self, lines: &mut Vec<u8>) {
        let before = lines.len();
        match serde_json::to_writer(&mut *lines, &self.line()) {
            Ok(()) => lines.push(b'\n'),
            // It has a JSON form whatever is in it; a half of one must not reach the reader.
            Err(_) => lines.truncate(before),
        }
    }
}

/// As configurations name it.
pub(in crate::telemetry) fn profile(name: &str) -> &str {
    if name.is_empty() { "default" } else { name }
}

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// What follows may be a secret (a signature, a token).
pub(in crate::telemetry) fn without_query(uri: &str) -> &str {
    &uri[..uri.find(['?', '#']).unwrap_or(uri.len())]
}

fn time<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*at))
}

/// `2026-07-28T12:34:56.789Z`.
pub(super) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 1 March of year 0, in eras of 400 years: a leap day is then the last of its year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + era * 400, month + 3),
        _ => (year + era * 400 + 1, month - 9),
    };
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{millis:03}Z", second % 60)
}
