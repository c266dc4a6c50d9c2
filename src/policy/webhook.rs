//! The webhook that decides on calls: asked in bounded number and time, its answers remembered for a while; where it does
//! not answer, the operator's choice holds.

use super::pins::canonical;
use super::rules::Hints;
use crate::config::{self, OnFailure, Verdict};
use crate::egress::{Egress, Named};
use crate::mcp::{Caller, Ruling, UpstreamId};
use crate::telemetry::metrics;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::{Request, header};
use moka::sync::Cache;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Answers that are remembered at most.
const REMEMBERED: u64 = 10_000;
/// Most characters of its words that are passed on.
const LONGEST: usize = 500;

pub(super) struct Webhook {
    egress: Egress,
    url: String,
    token: Option<SecretString>,
    timeout: Duration,
    on_failure: OnFailure,
    arguments: bool,
    places: Semaphore,
    answers: Option<Cache<[u8; 32], Arc<Answer>>>,
}

/// What is asked about.
pub(super) struct Question<'a> {
    pub(super) caller: &'a Caller,
    pub(super) upstream: &'a UpstreamId,
    pub(super) tool: &'a str,
    pub(super) hints: Hints,
    /// As JSON.
    pub(super) arguments: Option<Bytes>,
    /// The rule that asks.
    pub(super) rule: Option<&'a str>,
}

#[derive(Deserialize)]
struct Answer {
    decision: Decision,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    instead: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allow,
    Deny,
    NeedsApproval,
}

impl Webhook {
    /// `None` where none is configured.
    pub(super) fn of(
        config: &config::Webhook,
        token: Option<SecretString>,
        egress: Egress,
    ) -> Option<Webhook> {
        let answers = Cache::builder().max_capacity(REMEMBERED).time_to_live(config.cache);
        Some(Webhook {
            url: config.url.clone()?,
            egress,
            token,
            timeout: config.timeout,
            on_failure: config.on_failure,
            arguments: config.arguments,
            places: Semaphore::new(config.max_in_flight as usize),
            answers: (!config.cache.is_zero()).then(|| answers.build()),
        })
    }

    /// What it says of a call; what was chosen for where it says nothing.
    pub(super) async fn ask(&self, question: Question<'_>) -> (Verdict, Ruling) {
        let plain = self.body(&question);
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, plain.as_bytes()).as_ref());
        let count = |outcome| metrics().policy_webhook.with_label_values(&[outcome]).inc();
        if let Some(answer) = self.answers.as_ref().and_then(|answers| answers.get(&key)) {
            count("remembered");
            return ruled(&answer);
        }
        let until = Instant::now() + self.timeout;
        match timeout_at(until, self.send(plain)).await {
            Ok(Ok(answer)) => {
                count("answered");
                let answer = Arc::new(answer);
                if let Some(answers) = &self.answers {
                    answers.insert(key, answer.clone());
                }
                ruled(&answer)
            }
            failed => {
                let why = failed
                    .map_or_else(|_| "it did not answer in time", |failed| failed.err().unwrap_or_default());
                count("failed");
                tracing::warn!(
                    why,
                    allowed = self.on_failure == OnFailure::Allow,
                    "the policy webhook gives no decision"
                );
                let verdict = match self.on_failure {
                    OnFailure::Allow => Verdict::Allow,
                    OnFailure::Deny => Verdict::Deny,
                };
                let why = "whether this call is allowed cannot be found out at this time".to_owned();
                (verdict, Ruling { by: "webhook".into(), why, instead: Some("Try again later".to_owned()) })
            }
        }
    }

    async fn send(&self, body: String) -> Result<Answer, &'static str> {
        // Who waits for a place waits within the time for the answer.
        let _place = self.places.acquire().await.map_err(|_| "it is closed")?;
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        }
        let request = request.body(Bytes::from(body)).map_err(|_| "its URL or token cannot be sent")?;
        let answer = self.egress.send(request, Named::ByUs).await.map_err(|error| {
            tracing::debug!(%error, "the policy webhook was not reached");
            "it was not reached"
        })?;
        if !answer.status.is_success() {
            return Err("it answered with an error");
        }
        serde_json::from_slice(&answer.body).map_err(|_| "its answer is not a decision")
    }

    /// Whether it is shown the arguments of calls, which then must mean one thing.
    pub(super) fn wants_arguments(&self) -> bool {
        self.arguments
    }

    fn body(&self, question: &Question<'_>) -> String {
        let access = &question.caller.access;
        let hints = &question.hints;
        let body: Value = json!({
            "version": 1,
            "principal": {
                "tenant": *access.principal.tenant,
                "issuer": *access.principal.issuer,
                "subject": *access.principal.subject,
            },
            "scopes": access.scopes.iter().collect::<Vec<_>>(),
            "client": access.client.as_deref(),
            "profile": *question.caller.profile,
            "upstream": question.upstream.as_str(),
            "tool": question.tool,
            "rule": question.rule,
            "annotations": {
                "readOnly": hints.read_only,
                "destructive": hints.destructive,
                "idempotent": hints.idempotent,
                "openWorld": hints.open_world,
            },
        });
        let mut plain = String::new();
        canonical(&body, &mut plain);
        if self.arguments {
            // As they go upstream, to the byte: what is judged is what is called.
            let arguments = question.arguments.as_deref().map(String::from_utf8_lossy);
            plain.pop();
            plain.push_str(",\"arguments\":");
            plain.push_str(arguments.as_deref().unwrap_or("{}"));
            plain.push('}');
        }
        plain
    }
}

fn ruled(answer: &Answer) -> (Verdict, Ruling) {
    let verdict = match answer.decision {
        Decision::Allow => Verdict::Allow,
        Decision::Deny => Verdict::Deny,
        Decision::NeedsApproval => Verdict::Approve,
    };
    let short = |text: &String| text.chars().take(LONGEST).collect::<String>();
    let why = answer.reason.as_ref().map_or_else(|| "this call is not allowed".to_owned(), short);
    (verdict, Ruling { by: "webhook".into(), why, instead: answer.instead.as_ref().map(short) })
}
