//! `mcpServers` as Cursor, Claude, VS Code and others write it, brought to the form of `upstreams`: their spellings of
//! our keys, and names that are made into ids.

use super::{
    problem::{KeyPath, Problem},
    tree::{Entry, Node, Value},
};

/// Keys that matter only inside the client that wrote them.
const CLIENTS_OWN: [&str; 8] =
    ["alwaysAllow", "autoApprove", "description", "dev", "gallery", "name", "trust", "version"];

/// Takes the servers out of a client's file: `mcpServers`, VS Code's `servers`, or its settings' `mcp.servers`. Everything
/// else in the file is the client's own.
pub(super) fn from_clients_file(mut root: Node) -> Result<Node, Problem> {
    let servers = root.remove("mcpServers").or_else(|| root.remove("servers"));
    let servers = servers.or_else(|| root.get_mut("mcp").and_then(|mcp| mcp.remove("servers")));
    let Some(servers) = servers else {
        let message = "expected a map \"mcpServers\" (or \"servers\", as VS Code writes it)".to_owned();
        return Err(Problem { place: root.place, path: KeyPath::default(), message });
    };
    Ok(Node { value: Value::Map(vec![Entry { key: "mcpServers".to_owned(), ..servers }]), place: root.place })
}

/// Brings each server of the root's `mcpServers` to our keys; returns what is wrong, then what is worth a warning.
pub(super) fn normalise(root: &mut Node) -> (Vec<Problem>, Vec<Problem>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let servers = match root.get_mut("mcpServers").map(|servers| &mut servers.value) {
        Some(Value::Map(servers)) => servers,
        _ => return (problems, warnings),
    };
    for server in servers {
        let path = KeyPath::of(&["mcpServers", &server.key]);
        let Value::Map(entries) = &mut server.node.value else { continue };
        entries.retain(|entry| !CLIENTS_OWN.contains(&entry.key.as_str()));
        // Clients write seconds or milliseconds here, and nothing tells which.
        if let Some(index) = entries.iter().position(|entry| {
            entry.key == "timeout" && matches!(entry.node.value, Value::Integer(_) | Value::Float(_))
        }) {
            let place = entries.remove(index).place;
            let message = "a number without a unit is ignored; write \"30s\"".to_owned();
            warnings.push(Problem { place, path: path.then("timeout"), message });
        }
        let mut implied = None;
        for entry in entries.iter_mut() {
            match (entry.key.as_str(), &mut entry.node.value) {
                ("serverUrl", _) => entry.key = "url".to_owned(),
                ("httpUrl", _) => {
                    entry.key = "url".to_owned();
                    implied = Some(Entry {
                        key: "transport".to_owned(),
                        place: entry.place.clone(),
                        node: Node::text("http", entry.place.clone()),
                    });
                }
                ("type", Value::Text(kind)) => {
                    entry.key = "transport".to_owned();
                    // For VS Code `http` means: Streamable HTTP, and HTTP+SSE where there is none.
                    match kind.as_str() {
                        "http" => "auto".clone_into(kind),
                        "streamable-http" | "streamableHttp" | "streamable_http" => "http".clone_into(kind),
                        _ => {}
                    }
                }
                ("disabled", Value::Bool(disabled)) => {
                    *disabled = !*disabled;
                    entry.key = "enabled".to_owned();
                }
                _ => {}
            }
        }
        entries.extend(implied);
        let mut seen: Vec<String> = Vec::new();
        entries.retain(|entry| {
            let twice = seen.contains(&entry.key);
            if twice {
                let message = "is given twice, in two clients' spellings".to_owned();
                problems.push(Problem { place: entry.place.clone(), path: path.then(&entry.key), message });
            }
            seen.push(entry.key.clone());
            !twice
        });
    }
    (problems, warnings)
}

/// Moves the servers of `mcpServers` into `upstreams` under ids; names that give an id already taken are problems.
pub(super) fn into_upstreams(root: &mut Node) -> Vec<Problem> {
    let Some(Entry { node: servers, .. }) = root.remove("mcpServers") else { return Vec::new() };
    let mut problems = Vec::new();
    let Value::Map(servers) = servers.value else { return problems };
    let upstreams = root.entry("upstreams");
    for mut server in servers {
        let path = KeyPath::of(&["mcpServers", &server.key]);
        let id = fit(&server.key);
        let message = if id.is_empty() {
            "the name has no character of a-z and 0-9 to make an id of".to_owned()
        } else if upstreams.get(&id).is_some() {
            format!("its id {id:?} is taken by another upstream; give it another name")
        } else {
            server.key = id;
            if let Value::Map(entries) = &mut upstreams.value {
                entries.push(server);
            }
            continue;
        };
        problems.push(Problem { place: server.place, path, message });
    }
    problems
}

/// The id of a server's name: lower case, every run of other characters one `-`, none at the ends, the first 20.
pub(super) fn fit(name: &str) -> String {
    let mut id = String::new();
    for each in name.to_lowercase().chars() {
        if each.is_ascii_lowercase() || each.is_ascii_digit() {
            id.push(each);
        } else if !id.ends_with('-') && !id.is_empty() {
            id.push('-');
        }
    }
    id.truncate(20);
    id.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ids_by_one_rule() {
        let cases = [
            ("files", "files"),
            ("My Server", "my-server"),
            ("GitHub (work)", "github-work"),
            ("@scope/server_everything", "scope-server-everyth"),
            ("a__b--c", "a-b-c"),
            ("aaaaaaaaaaaaaaaaaaa-b", "aaaaaaaaaaaaaaaaaaa"),
            ("Ünïcode", "n-code"),
            ("日本", ""),
        ];
        for (name, id) in cases {
            assert_eq!(fit(name), id, "{name}");
            assert_eq!(fit(id), id, "an id is its own id");
        }
    }
}
