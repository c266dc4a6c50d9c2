//! From sources to a configuration: each source is read and checked by itself, then they are laid over one another
//! (default, file, `mcp.json` files, environment, flags), read into `Config`, filled with variables and validated.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value as Json;

use super::{
    Config,
    check::{self, Findings},
    environment, format, mcp_servers,
    problem::{ConfigError, KeyPath, Origin, Place, Problem},
    programs,
    reference::schema,
    secret::{Secret, Template},
    tree::{self, Node, Value},
    validate,
};

/// Where a configuration comes from. `Default` is no source at all: the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The YAML file.
    pub file: Option<PathBuf>,
    /// Clients' files with `mcpServers`, in order; their servers come after the YAML file's.
    pub mcp_json: Vec<PathBuf>,
    /// The process's environment: `PLASM_MCP_…` are settings, all are variables that text may name.
    pub environment: Vec<(String, String)>,
    /// Settings from the command line; they win.
    pub flags: Vec<Flag>,
}

/// A setting given by a command line flag.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As it is written: `--listen`.
    pub flag: &'static str,
    /// The setting's keys: `["listen"]`.
    pub path: &'static [&'static str],
    pub value: String,
}

/// What becomes of variables and secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// They are needed: `${…}` is filled, and a secret without a value is an error.
    Needed,
    /// Text stays as it is written, for checking and showing where secrets are absent; what is missing is a warning.
    AsWritten,
}

/// A configuration and what there is to say of it.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// What was ignored or is missing, for the log or standard error.
    pub warnings: Vec<Problem>,
    /// Settings that came from the environment or a flag.
    pub overridden: Vec<(KeyPath, Origin)>,
}

/// Reads, checks and joins all sources.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong; a file that cannot be read or parsed is reported alone.
pub fn load(sources: &Sources, values: Values) -> Result<Loaded, ConfigError> {
    let schema = schema();
    let mut found = Found::default();
    let mut whole = Node::map();

    if let Some(file) = &sources.file {
        let mut root = tree::parse_yaml(&read(file)?, file)?;
        if root.value == Value::Null {
            root.value = Value::Map(Vec::new());
        }
        found.servers(&mut root);
        found.check(&root, &schema, Unknown::IsWrong);
        whole.overlay(root);
    }
    found.problems.extend(mcp_servers::into_upstreams(&mut whole));
    for file in &sources.mcp_json {
        match mcp_servers::from_clients_file(tree::parse_json(&read(file)?, file)?) {
            Ok(mut root) => {
                found.servers(&mut root);
                found.check(&root, &schema, Unknown::IsIgnored);
                drop_unknown(&mut root, &schema);
                whole.overlay(root);
                found.problems.extend(mcp_servers::into_upstreams(&mut whole));
            }
            Err(problem) => found.problems.push(problem),
        }
    }

    let (variables, unknown) = environment::overlay(&sources.environment, &schema);
    let mut flags = Node::map();
    for Flag { flag, path, value } in &sources.flags {
        let place = Place { origin: Arc::new(Origin::Flag(flag)), line: 0, column: 0 };
        let leaf = environment::leaves(&schema).into_iter().find(|leaf| leaf.path == *path);
        let leaf = leaf.expect("a flag sets a setting that the schema has");
        environment::set(&mut flags, path, environment::typed(value, leaf.schema, place));
    }
    for root in [variables, flags] {
        found.check(&root, &schema, Unknown::IsWrong);
        whole.overlay(root);
    }
    found.fail()?;
    found.warnings.extend(unknown.into_iter().filter(|warning| !is_named_in(warning, &whole)));

    // By way of text: serde_json keeps the order of text, and its tree would not.
    let text = serde_json::to_string(&whole).expect("a tree of plain values is JSON");
    let mut config: Config = match serde_json::from_str(&text) {
        Ok(config) => config,
        Err(error) => {
            return Err(ConfigError::Invalid(vec![at(&whole, KeyPath::default(), error.to_string())]));
        }
    };
    if let Some(url) = &mut config.public_url {
        url.truncate(url.trim_end_matches('/').len());
    }
    fill(&mut config, &sources.environment, values, &whole, &mut found);
    for (path, message) in validate::validate(&config) {
        found.problems.push(at(&whole, path, message));
    }
    found.fail()?;
    let doubtful =
        validate::doubtful(&config).into_iter().chain(programs::missing(&config, &sources.environment));
    found.warnings.extend(doubtful.map(|(path, message)| at(&whole, path, message)));
    Ok(Loaded { config, warnings: found.warnings, overridden: overridden(&whole) })
}

fn read(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|why| ConfigError::Unreadable { file: file.to_owned(), why })
}

/// What the sources brought to light so far.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

#[derive(Clone, Copy)]
enum Unknown {
    IsWrong,
    IsIgnored,
}

impl Found {
    fn servers(&mut self, root: &mut Node) {
        let (problems, warnings) = mcp_servers::normalise(root);
        self.problems.extend(problems);
        self.warnings.extend(warnings);
    }

    fn check(&mut self, root: &Node, schema: &Json, unknown_key: Unknown) {
        let Findings { problems, unknown } = check::check(root, schema);
        self.problems.extend(problems);
        match unknown_key {
            Unknown::IsWrong => self.problems.extend(unknown),
            Unknown::IsIgnored => self.warnings.extend(
                unknown
                    .into_iter()
                    .map(|key| Problem { message: format!("{}; ignored", key.message), ..key }),
            ),
        }
    }

    fn fail(&mut self) -> Result<(), ConfigError> {
        // By source and line, as a person goes through them.
        let mut sources: Vec<Option<Arc<Origin>>> = Vec::new();
        self.problems.sort_by_cached_key(|Problem { place, .. }| {
            let origin = place.as_ref().map(|place| Arc::clone(&place.origin));
            let source = sources.iter().position(|known| *known == origin).unwrap_or_else(|| {
                sources.push(origin);
                sources.len() - 1
            });
            (source, place.as_ref().map(|place| (place.line, place.column)))
        });
        match std::mem::take(&mut self.problems) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(ConfigError::Invalid(problems)),
        }
    }
}

fn at(whole: &Node, path: KeyPath, message: String) -> Problem {
    Problem { place: whole.place_of(&path), path, message }
}

/// Takes out of clients' servers what is no key of ours.
fn drop_unknown(root: &mut Node, schema: &Json) {
    let known = &schema["properties"]["mcpServers"]["additionalProperties"]["properties"];
    let Some(Value::Map(servers)) = root.get_mut("mcpServers").map(|servers| &mut servers.value) else {
        return;
    };
    for server in servers {
        if let Value::Map(entries) = &mut server.node.value {
            entries.retain(|entry| known.get(&entry.key).is_some());
        }
    }
}

/// Whether the configuration itself names the variable, as a secret or in text.
fn is_named_in(warning: &Problem, node: &Node) -> bool {
    let Some(Origin::Environment(name)) = warning.place.as_ref().map(|place| &*place.origin) else {
        return false;
    };
    match &node.value {
        Value::Text(text) => text.contains(name.as_str()),
        Value::List(items) => items.iter().any(|item| is_named_in(warning, item)),
        Value::Map(entries) => entries.iter().any(|entry| is_named_in(warning, &entry.node)),
        _ => false,
    }
}

/// Fills variables into addresses and commands, and sees that each secret has a value.
fn fill(
    config: &mut Config,
    environment: &[(String, String)],
    values: Values,
    whole: &Node,
    found: &mut Found,
) {
    let lookup =
        |name: &str| environment.iter().find(|(have, _)| have == name).map(|(_, value)| value.clone());
    let missing = |found: &mut Found, path: KeyPath, message: String| match values {
        Values::Needed => found.problems.push(at(whole, path, message)),
        Values::AsWritten => found.warnings.push(at(whole, path, message)),
    };
    let fill_text = |found: &mut Found, path: KeyPath, text: &mut String| match Template::parse(text) {
        Err(message) => found.problems.push(at(whole, path, message)),
        Ok(template) => match template.fill(&lookup) {
            Err(error) => missing(found, path, error.to_string()),
            Ok(filled) if values == Values::Needed => *text = filled,
            Ok(_) => {}
        },
    };
    for (id, upstream) in config.upstreams.values_mut() {
        let path = KeyPath::of(&["upstreams", id]);
        // A server that is turned off may lack what it would need.
        if !upstream.enabled {
            continue;
        }
        if let Some(url) = &mut upstream.url {
            fill_text(found, path.then("url"), url);
            if let Err(message) = format::http_url(url) {
                found.problems.push(at(whole, path.then("url"), message));
            }
        }
        if let Some(command) = &mut upstream.command {
            fill_text(found, path.then("command"), command);
        }
        for (index, arg) in upstream.args.iter_mut().enumerate() {
            fill_text(found, path.then("args").item(index), arg);
        }
        if let Some(cwd) = upstream.cwd.as_mut() {
            let mut text = cwd.to_string_lossy().into_owned();
            fill_text(found, path.then("cwd"), &mut text);
            *cwd = text.into();
        }
        let headers = upstream.headers.iter().map(|(name, secret)| (path.then("headers").then(name), secret));
        let env = upstream.env.iter().map(|(name, secret)| (path.then("env").then(name), secret));
        let proxy = upstream.proxy.iter().map(|secret| (path.then("proxy"), secret));
        for (path, secret) in headers.chain(env).chain(proxy) {
            check_secret(&lookup, found, path, secret, &missing);
        }
    }
    if let Some(url) = &config.store.redis_url {
        check_secret(&lookup, found, KeyPath::of(&["store", "redis_url"]), url, &missing);
    }
    if let Some(token) = &config.admin_token {
        check_secret(&lookup, found, KeyPath::of(&["admin_token"]), token, &missing);
    }
    if let Some(token) = &config.policy.webhook.token {
        check_secret(&lookup, found, KeyPath::of(&["policy", "webhook", "token"]), token, &missing);
    }
    if let Some(proxy) = &config.outbound.proxy {
        check_secret(&lookup, found, KeyPath::of(&["outbound", "proxy"]), proxy, &missing);
    }
    let server = &config.auth.server;
    let rings = [
        (KeyPath::of(&["sealing", "keys"]), &config.sealing.keys),
        (KeyPath::of(&["auth", "server", "signing_keys"]), &server.signing_keys),
        (KeyPath::of(&["auth", "server", "client_id_keys"]), &server.client_id_keys),
    ];
    for (path, keys) in rings {
        for (index, secret) in keys.iter().enumerate() {
            check_secret(&lookup, found, path.item(index), secret, &missing);
        }
    }
    let login = KeyPath::of(&["auth", "login"]);
    if let Some(secret) = &config.auth.login.oidc.client_secret {
        check_secret(&lookup, found, login.then("oidc").then("client_secret"), secret, &missing);
    }
    for (name, user) in config.auth.login.users.iter() {
        if let Some(secret) = &user.password {
            check_secret(&lookup, found, login.then("users").then(name).then("password"), secret, &missing);
        }
    }
}

fn check_secret(
    lookup: &impl Fn(&str) -> Option<String>,
    found: &mut Found,
    path: KeyPath,
    secret: &Secret,
    missing: &impl Fn(&mut Found, KeyPath, String),
) {
    if let Err(error) = secret.reveal_from(lookup) {
        missing(found, path, error.to_string());
    }
}

/// The settings that the environment or a flag gave.
fn overridden(whole: &Node) -> Vec<(KeyPath, Origin)> {
    fn walk(node: &Node, path: &KeyPath, found: &mut Vec<(KeyPath, Origin)>) {
        for entry in node.entries() {
            let path = path.then(&entry.key);
            match entry.place.as_ref().map(|place| &*place.origin) {
                Some(origin @ (Origin::Environment(_) | Origin::Flag(_))) => {
                    found.push((path, origin.clone()))
                }
                _ => walk(&entry.node, &path, found),
            }
        }
    }
    let mut found = Vec::new();
    walk(whole, &KeyPath::default(), &mut found);
    found
}

#[cfg(test)]
mod tests;
