//! One connecting, from the link to the token: what is kept meanwhile, and what is checked when the browser comes back.

use super::{CALLBACK, Connect, Link, PATIENCE};
use crate::auth::form::Form;
use crate::auth::{digest_text, random_text};
use crate::egress::Named;
use crate::mcp::Principal;
use crate::sealing::Purpose;
use crate::store::{Check, Commit, Key, StoreError, Sure, Write};
use crate::vault::held::{Held, Source};
use crate::vault::metadata::Unknown;
use crate::vault::token::{self, Failed};
use crate::vault::user::Account;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use url::Url;

/// Why nothing comes of it. The texts are for whoever is at the browser.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("The link has been used")]
    Used,
    #[error("This page is too old, or was opened in another browser")]
    Stale,
    #[error("The answer came from another server than the one that was asked")]
    Mixed,
    #[error("You did not allow it, or the server did not")]
    Denied,
    #[error("The server where the account is cannot be used: {0}")]
    Server(String),
    #[error("the store is away")]
    Away,
}

impl From<Unknown> for Stopped {
    fn from(unknown: Unknown) -> Stopped {
        match unknown {
            Unknown::Away => Stopped::Away,
            unknown => Stopped::Server(unknown.to_string()),
        }
    }
}

impl From<StoreError> for Stopped {
    fn from(_: StoreError) -> Stopped {
        Stopped::Away
    }
}

/// What is kept while the browser is elsewhere.
#[derive(Serialize, Deserialize)]
struct Flow {
    upstream: String,
    /// Whose it is: the principal, and the browser by the digest of its cookie.
    principal: String,
    browser: String,
    /// PKCE's (RFC 7636).
    verifier: String,
    /// Whether the server said that it names itself in its answers (RFC 9207 3).
    names_itself: bool,
    source: Source,
    /// Whether the client was registered by us, so that it is registered anew where it is not known any more.
    registered: bool,
}

impl Connect {
    /// Finds out whom to ask and as whom, and gives the address to which the browser goes. Uses the link up.
    pub(super) async fn set_out(
        &self,
        account: &Account,
        link: &Link,
        browser: &str,
    ) -> Result<String, Stopped> {
        let (shared, spec) = (&self.shared, &account.spec);
        let used = Key::new(format!("vault:link:{}", digest_text(link.id.as_bytes())), "");
        let writes = vec![(used.clone(), Write::set("u", "")), (used.clone(), Write::Live(PATIENCE * 2))];
        match shared.store.commit(vec![(used, Check::Absent)], writes, Sure::Replicas).await? {
            Commit::Done(_) => {}
            Commit::Failed { .. } => return Err(Stopped::Used),
        }
        let resource = shared.resource(spec, link.metadata.as_deref()).await?;
        let server = shared.server(spec, &resource.issuer).await?;
        let lacks = |what| Stopped::from(Unknown::Lacks(what));
        // A server that does not say so would ignore the challenge (MCP authorization, *Authorization Code Protection*).
        if !server.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(lacks("PKCE with S256"));
        }
        let place =
            server.authorization_endpoint.as_deref().ok_or_else(|| lacks("authorization endpoint"))?;
        if !shared.egress.takes(place, spec.named(place)) {
            return Err(Stopped::Server("its authorization endpoint is not reached from here".into()));
        }
        let endpoint = server.token_endpoint().map_err(Stopped::from)?.to_owned();
        let client = shared.client(spec, &server, &self.base).await?;
        let mut scopes = link.scopes.clone().unwrap_or_else(|| resource.scopes.clone());
        scopes
            .extend(spec.scopes.iter().filter(|scope| !scopes.contains(scope)).cloned().collect::<Vec<_>>());
        // Only there may it be asked for (SEP-2207).
        let offline = "offline_access".to_owned();
        if server.scopes_supported.iter().flatten().any(|scope| *scope == offline)
            && !scopes.contains(&offline)
        {
            scopes.push(offline);
        }
        let (state, verifier) = (random_text(), random_text());
        let resource = spec.resource.clone().unwrap_or(resource.id);
        let mut url = Url::parse(place).map_err(|_| lacks("authorization endpoint"))?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &format!("{}{CALLBACK}", self.base))
            .append_pair("state", &state)
            .append_pair("code_challenge", &digest_text(verifier.as_bytes()))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &resource);
        if !scopes.is_empty() {
            url.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        let flow = Flow {
            upstream: spec.upstream.to_string(),
            principal: account.principal.identity(),
            browser: digest_text(browser.as_bytes()),
            verifier,
            names_itself: server.authorization_response_iss_parameter_supported,
            registered: spec.client.is_none()
                && client.id.as_str() != spec.client_metadata_url.as_deref().unwrap_or(""),
            source: Source {
                issuer: server.issuer.clone(),
                endpoint,
                revocation: server.revocation_endpoint.clone(),
                client,
                resource: Some(resource),
                scopes,
            },
        };
        let plain = serde_json::to_vec(&flow).expect("a struct of strings has a JSON form");
        let sealed = shared.keyring.seal(Purpose::Vault, &flow_aad(&state), &plain);
        let key = flow_key(&state);
        let writes = vec![(key.clone(), Write::set("v", sealed)), (key, Write::Live(PATIENCE))];
        shared.store.commit(Vec::new(), writes, Sure::Master).await?;
        Ok(url.into())
    }

    /// Checks what the browser came back with, and holds the token that it gives. The upstream, also with an error.
    pub(super) async fn arrive(
        &self,
        principal: &Arc<Principal>,
        browser: &str,
        form: &Form,
    ) -> Result<String, (String, Stopped)> {
        let state = form.get("state").unwrap_or_default();
        let flow = self.flow(state).await.map_err(|stopped| (String::new(), stopped))?;
        let upstream = flow.upstream.clone();
        self.redeem(flow, state, principal, browser, form)
            .await
            .map_err(|stopped| (upstream.clone(), stopped))?;
        Ok(upstream)
    }

    async fn flow(&self, state: &str) -> Result<Flow, Stopped> {
        let record = self.shared.store.get(flow_key(state)).await?;
        let opened = record.as_ref().and_then(|record| {
            let sealed = std::str::from_utf8(record.field("v")?).ok()?;
            let plain = self.shared.keyring.open(Purpose::Vault, &flow_aad(state), sealed).ok()?;
            serde_json::from_slice(&plain).ok()
        });
        opened.ok_or(Stopped::Stale)
    }

    async fn redeem(
        &self,
        flow: Flow,
        state: &str,
        principal: &Arc<Principal>,
        browser: &str,
        form: &Form,
    ) -> Result<(), Stopped> {
        let shared = &self.shared;
        // Whoever else's browser brings it uses nothing up.
        if flow.principal != principal.identity() || flow.browser != digest_text(browser.as_bytes()) {
            return Err(Stopped::Stale);
        }
        if shared.store.take(flow_key(state), Sure::Replicas).await?.is_none() {
            return Err(Stopped::Used);
        }
        // Errors too are only its own (RFC 9207 2.4): compared as they are written.
        match form.get("iss") {
            Some(issuer) if issuer != flow.source.issuer => return Err(Stopped::Mixed),
            None if flow.names_itself => return Err(Stopped::Mixed),
            _ => {}
        }
        let Some(code) = form.get("code").filter(|_| form.get("error").is_none()) else {
            return Err(Stopped::Denied);
        };
        let account = self.account(principal, &flow.upstream).ok_or(Stopped::Stale)?;
        let Flow { mut source, verifier, .. } = flow;
        source.client = account.spec.current(&source.client);
        let redirect = format!("{}{CALLBACK}", self.base);
        let mut parameters = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", &verifier),
        ];
        parameters.extend(source.resource.as_deref().map(|resource| ("resource", resource)));
        let named: Named = account.spec.named(&source.endpoint);
        let given =
            token::ask(&shared.egress, named, &source.endpoint, &source.client, &source.issuer, &parameters)
                .await;
        let given = match given {
            Ok(given) => given,
            Err(Failed::Dead) => return Err(Stopped::Denied),
            Err(failed) => {
                if matches!(failed, Failed::Refused(_)) && flow.registered {
                    shared.unregister(&source.issuer, &self.base).await;
                }
                return Err(Stopped::Server(failed.to_string()));
            }
        };
        let slot = account.slot();
        shared.hold(&slot, &Held::of(given, source).connected_now()).await.map_err(|_| Stopped::Away)?;
        shared.wanted.invalidate(&slot.key);
        Ok(())
    }
}

fn flow_key(state: &str) -> Key {
    Key::new(format!("vault:flow:{}", digest_text(state.as_bytes())), "")
}

fn flow_aad(state: &str) -> Vec<u8> {
    format!("flow {state}").into_bytes()
}
