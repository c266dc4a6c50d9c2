//! Rules between settings, which no schema of single keys can say.

use super::{
    Config, CredentialKind, Era, Ordered, Profile, SURFACE_ID, Tls, Transport, Upstream, credentials,
    problem::{KeyPath, did_you_mean},
};

/// Everything that is wrong between settings.
pub(super) fn validate(config: &Config) -> Vec<(KeyPath, String)> {
    let mut wrong = Vec::new();
    if !config.listen.ip().is_loopback() && !config.insecure_no_auth && !config.auth.is_on() {
        wrong.push((
            KeyPath::of(&["listen"]),
            format!(
                "{} is not a loopback address, and nobody has to log in here; listen on 127.0.0.1, set up auth, or say \
                 insecure_no_auth: true (--insecure-no-auth)",
                config.listen
            ),
        ));
    }
    if config.listen == config.admin_listen && config.listen.port() != 0 {
        wrong.push((KeyPath::of(&["admin_listen"]), "is the address of listen as well".to_owned()));
    }
    if let Some(internal) = config.internal_listen.filter(|internal| internal.port() != 0)
        && (internal == config.listen || internal == config.admin_listen)
    {
        let why = "is the address of another listener as well";
        wrong.push((KeyPath::of(&["internal_listen"]), why.to_owned()));
    }
    if config.store.redis_url.is_some() && config.sealing.keys.is_empty() {
        let why = "needs sealing.keys beside it: a random key would differ from pod to pod, and what one pod gives its clients \
                   no other could read";
        wrong.push((KeyPath::of(&["store", "redis_url"]), why.to_owned()));
    }
    check_auth(config, &mut wrong);
    check_tls(&config.store.tls, &KeyPath::of(&["store", "tls"]), &mut wrong);
    if config.store.tls != Tls::default() && config.store.redis_url.is_none() {
        wrong.push((
            KeyPath::of(&["store", "tls"]),
            "is for a Redis, and there is no store.redis_url".to_owned(),
        ));
    }
    check_tls(&config.outbound.tls, &KeyPath::of(&["outbound", "tls"]), &mut wrong);
    for (id, upstream) in config.upstreams.iter() {
        check_upstream(upstream, &KeyPath::of(&["upstreams", id]), &mut wrong);
        if upstream.auth.kind == CredentialKind::TokenExchange && !config.auth.is_on() {
            let why = "exchanges the tokens that callers come with, and nobody has to log in here (auth)";
            wrong.push((KeyPath::of(&["upstreams", id, "auth", "kind"]), why.to_owned()));
        }
    }
    for (name, profile) in config.profiles.iter() {
        check_profile(profile, config, &KeyPath::of(&["profiles", name]), &mut wrong);
    }
    super::policy::check(config, &mut wrong);
    super::catalogs::check(config, &mut wrong);
    super::artifacts::check(config, &mut wrong);
    super::auth_server::check(config, &mut wrong);
    wrong
}

/// What can be used, and is hardly meant.
pub(super) fn doubtful(config: &Config) -> Vec<(KeyPath, String)> {
    let mut doubts = Vec::new();
    match (&config.store.redis_url, config.internal_listen) {
        (None, Some(_)) => {
            let why = "is not opened: without store.redis_url there are no other pods";
            doubts.push((KeyPath::of(&["internal_listen"]), why.to_owned()));
        }
        (Some(_), None) => {
            let stateful = config.enabled_upstreams().filter(|(_, upstream)| {
                !upstream.stateless && (upstream.command.is_some() || upstream.transport == Transport::Sse)
            });
            for (id, _) in stateful {
                let why = "each pod has its own child or connection, so what this server keeps between calls differs from pod \
                           to pod; set internal_listen, or stateless: true where it keeps nothing";
                doubts.push((KeyPath::of(&["upstreams", id]), why.to_owned()));
            }
        }
        _ => {}
    }
    doubts.extend(super::artifacts::doubt(config));
    doubts
}

type Wrong = Vec<(KeyPath, String)>;

fn check_auth(config: &Config, wrong: &mut Wrong) {
    let path = KeyPath::of(&["auth"]);
    if config.auth.is_on() && config.public_url.is_none() && !config.listen.ip().is_loopback() {
        let why = "is needed where people log in: a token is for the address that clients use, which nobody but you knows";
        wrong.push((KeyPath::of(&["public_url"]), why.to_owned()));
    }
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for (name, issuer) in config.auth.issuers.iter() {
        let path = path.then("issuers").then(name);
        if issuer.issuer.is_empty() {
            wrong.push((path.then("issuer"), "is needed: what tokens bear as iss".to_owned()));
        } else if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == issuer.issuer) {
            wrong.push((path.then("issuer"), format!("is that of {other:?} as well")));
        }
        taken.push((name, &issuer.issuer));
        if issuer.tenant.is_some() && issuer.tenant_claim.is_some() {
            wrong.push((
                path.then("tenant"),
                "stands beside tenant_claim; an issuer has one of them".to_owned(),
            ));
        }
    }
    for (id, key) in config.auth.api_keys.iter() {
        if key.hash.is_empty() {
            let path = path.then("api_keys").then(id).then("hash");
            wrong.push((path, "is needed; plasm-mcp token mint makes a key and its hash".to_owned()));
        }
    }
}

fn check_upstream(upstream: &Upstream, path: &KeyPath, wrong: &mut Wrong) {
    let mut say = |key: &str, message: &str| {
        let path = if key.is_empty() { path.clone() } else { path.then(key) };
        wrong.push((path, message.to_owned()));
    };
    let blank = Upstream::default();
    match (&upstream.url, &upstream.command) {
        (None, None) => say("", "needs a url (an HTTP server) or a command (a stdio server)"),
        (Some(_), Some(_)) => say("command", "stands beside url; an upstream has one of them"),
        (Some(_), None) => {
            if upstream.transport == Transport::Stdio {
                say("transport", "stdio needs a command, and there is a url");
            }
            let of_children = [
                ("args", upstream.args != blank.args),
                ("env", upstream.env != blank.env),
                ("cwd", upstream.cwd != blank.cwd),
            ];
            for (key, _) in of_children.into_iter().filter(|(_, set)| *set) {
                say(key, "belongs to a command, and there is a url");
            }
        }
        (None, Some(command)) => {
            if command.is_empty() {
                say("command", "is empty");
            }
            if matches!(upstream.transport, Transport::Http | Transport::Sse) {
                say("transport", "needs a url, and there is a command");
            }
            let of_http = [
                ("headers", upstream.headers != blank.headers),
                ("forward_headers", upstream.forward_headers != blank.forward_headers),
                ("tls", upstream.tls != blank.tls),
                ("proxy", upstream.proxy.is_some()),
            ];
            for (key, _) in of_http.into_iter().filter(|(_, set)| *set) {
                say(key, "belongs to a url, and there is a command");
            }
        }
    }
    if upstream.transport == Transport::Sse && upstream.era == Era::Modern {
        say("era", "HTTP+SSE is spoken in the legacy era only");
    }
    for (name, _) in upstream.headers.iter().filter(|(name, _)| is_transports_own(name)) {
        wrong.push((path.then("headers").then(name), "is set by the gateway itself".to_owned()));
    }
    for (index, name) in upstream.forward_headers.iter().enumerate() {
        if !may_go_upstream(name) {
            wrong.push((path.then("forward_headers").item(index), format!("{name} never goes upstream")));
        }
    }
    credentials::check(upstream, path, wrong);
    check_tls(&upstream.tls, &path.then("tls"), wrong);
    check_renames(&upstream.rename, &path.then("rename"), wrong);
}

/// A certificate is of no use without its key, nor a key without its certificate.
fn check_tls(tls: &Tls, path: &KeyPath, wrong: &mut Wrong) {
    match (&tls.cert, &tls.key) {
        (Some(_), None) => wrong.push((path.then("cert"), "needs key beside it".to_owned())),
        (None, Some(_)) => wrong.push((path.then("key"), "needs cert beside it".to_owned())),
        _ => {}
    }
}

/// Whether a header of the client's request may be passed on: not its credentials, nor what is between it and the gateway.
pub fn may_go_upstream(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    !is_transports_own(name) && !matches!(lower.as_str(), "authorization" | "cookie" | "proxy-authorization")
}

/// Headers that say how a message travels, or mirror what it says.
fn is_transports_own(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("mcp-")
        || matches!(
            name.as_str(),
            "host"
                | "content-length"
                | "content-type"
                | "content-encoding"
                | "accept"
                | "accept-encoding"
                | "connection"
                | "keep-alive"
                | "proxy-connection"
                | "transfer-encoding"
                | "te"
                | "trailer"
                | "upgrade"
                | "expect"
                | "last-event-id"
        )
}

fn check_renames(renames: &Ordered<String>, path: &KeyPath, wrong: &mut Wrong) {
    for (index, (tool, name)) in renames.iter().enumerate() {
        if let Some((other, _)) = renames.iter().take(index).find(|(_, taken)| *taken == name) {
            wrong.push((path.then(tool), format!("{name:?} is already the new name of {other:?}")));
        }
    }
}

fn check_profile(profile: &Profile, config: &Config, path: &KeyPath, wrong: &mut Wrong) {
    let unknown = |id: &str| {
        let near = did_you_mean(id, config.upstreams.keys());
        format!("there is no upstream {id:?}{near}")
    };
    for (index, id) in profile.upstreams.iter().flatten().enumerate() {
        let path = path.then("upstreams").item(index);
        if config.upstreams.get(id).is_none() {
            wrong.push((path, unknown(id)));
        } else if profile.upstreams.iter().flatten().take(index).any(|earlier| earlier == id) {
            wrong.push((path, format!("{id:?} stands twice")));
        }
    }
    if profile.upstreams.as_ref().is_some_and(Vec::is_empty) {
        wrong.push((path.then("upstreams"), "is empty; leave it out for all upstreams".to_owned()));
    }
    let adds = profile.surface.executes() || config.catalogs.is_on();
    if adds && config.upstreams.get(SURFACE_ID).is_some() {
        let why = format!(
            "adds tools of its own under {SURFACE_ID:?}, and an upstream has that id; give it another"
        );
        wrong.push((path.then("surface"), why));
    }
    if !profile.surface.executes() && profile.shared_sessions {
        let why = "is for the execute surface, and this profile has tools alone (surface)";
        wrong.push((path.then("shared_sessions"), why.to_owned()));
    }
    let mut taken: Vec<(&str, &str, &str)> = Vec::new();
    for (id, renames) in profile.rename.iter() {
        let path = path.then("rename").then(id);
        if config.upstreams.get(id).is_none() {
            wrong.push((path.clone(), unknown(id)));
        }
        for (tool, name) in renames.iter() {
            match taken.iter().find(|(_, _, have)| have == name) {
                Some((of, other, _)) => {
                    wrong.push((
                        path.then(tool),
                        format!("{name:?} is already the new name of {other:?} of {of:?}"),
                    ));
                }
                None => taken.push((id, tool, name)),
            }
        }
    }
}
