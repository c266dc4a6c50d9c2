//! Whole loads, from files to `Config` or to the text of everything that is wrong.

use std::path::PathBuf;

use secrecy::ExposeSecret;

use super::*;
use crate::config::{Era, MixedVersionHeader, Transport};

/// Loads files by name, in a folder that messages do not show.
fn load_files(
    yaml: Option<&str>,
    mcp_json: &[&str],
    environment: &[(&str, &str)],
    values: Values,
) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: String, text: &str| -> PathBuf {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let sources = Sources {
        file: yaml.map(|text| write("plasm.yaml".to_owned(), text)),
        mcp_json: mcp_json.iter().enumerate().map(|(n, text)| write(format!("mcp{n}.json"), text)).collect(),
        environment: environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        flags: Vec::new(),
    };
    let hide = |text: String| text.replace(&format!("{}/", folder.path().display()), "");
    load(&sources, values).map_err(|error| hide(error.to_string())).map(|loaded| {
        let warnings = loaded
            .warnings
            .into_iter()
            .map(|warning| Problem {
                place: None,
                path: KeyPath::default(),
                message: hide(warning.to_string()),
            })
            .collect();
        Loaded { warnings, ..loaded }
    })
}

fn yaml(text: &str) -> Result<Config, String> {
    load_files(Some(text), &[], &[], Values::Needed).map(|loaded| loaded.config)
}

fn faults(text: &str) -> String {
    yaml(text).unwrap_err()
}

fn texts(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_source_at_all_is_the_defaults() {
    assert_eq!(load_files(None, &[], &[], Values::Needed).unwrap().config, Config::default());
    assert_eq!(yaml("").unwrap(), Config::default());
    assert_eq!(yaml("# nothing\nlimits:\nupstreams: {}\n").unwrap(), Config::default());
}

#[test]
fn a_full_file_reaches_every_part() {
    let config = yaml(
        "listen: 127.0.0.1:0
public_url: https://mcp.example.com/
public_path: /plasm/mcp
allowed_hosts: [mcp.example.com]
allowed_origins: ['https://app.example.com', 'null']
limits: {request_bytes: 8MiB, header_bytes: 65536}
timeouts: {call: 1m30s}
streams: {open_after: 0s, keep_alive: 10s}
sessions: {ttl: 7d, per_principal: 10}
legacy: {sessionless: false}
compat: {mixed_version_header: follow_meta}
upstreams:
  zeta:
    url: https://z.example/mcp
    headers: {X-Key: plain}
    forward_headers: [X-Request-Id]
    transport: http
    era: modern
    stateless: true
    timeout: 250ms
    health: {failures: 3}
    rename: {read: read_file}
    tools: {allow: ['read*'], deny: ['*_secret']}
    uri_prefixes: ['z://']
  alpha:
    command: npx
    args: [-y, server]
    env: {DEBUG: 'on'}
    cwd: /srv
    max_children: 2
profiles:
  ops:
    upstreams: [alpha, zeta]
    tools: {deny: [alpha__rm]}
    rename: {alpha: {ls: list}}
    instructions: Be careful.
",
    )
    .unwrap();
    assert_eq!(config.public_url.as_deref(), Some("https://mcp.example.com"));
    assert_eq!((config.limits.request_bytes, config.limits.header_bytes), (8 << 20, 64 << 10));
    assert_eq!(config.timeouts.call.as_secs(), 90);
    assert_eq!(config.sessions.ttl.as_secs(), 7 * 86_400);
    assert!(!config.legacy.sessionless);
    assert_eq!(config.compat.mixed_version_header, MixedVersionHeader::FollowMeta);
    assert_eq!(config.upstreams.keys().collect::<Vec<_>>(), ["zeta", "alpha"], "order is the file's");
    let zeta = config.upstreams.get("zeta").unwrap();
    assert_eq!((zeta.transport, zeta.era, zeta.stateless), (Transport::Http, Era::Modern, true));
    assert_eq!(zeta.timeout.unwrap().as_millis(), 250);
    assert_eq!(zeta.headers.get("X-Key").unwrap().reveal().unwrap().expose_secret(), "plain");
    assert_eq!(config.upstreams.get("alpha").unwrap().args, ["-y", "server"]);
    let served = config.served_profiles();
    assert_eq!((served[0].0, &served[0].2[..]), ("default", &["zeta", "alpha"][..]));
    assert_eq!((served[1].0, &served[1].2[..]), ("ops", &["alpha", "zeta"][..]));
    assert_eq!(served[1].1.rename.get("alpha").unwrap().get("ls").unwrap(), "list");
}

#[test]
fn unknown_keys_name_the_nearest_key_and_everything_wrong_is_said_at_once() {
    insta::assert_snapshot!(faults(
        "lisen: 127.0.0.1:1
adminListen: 127.0.0.1:2
limits:
  request_bytes: 4MB
  json_depth: 2
  page_items: many
timeouts: {call: 30, body_read: 1ms, header_read: 2d}
streams: {keep_alive: 30s}
legacy: {sessionless: yes}
compat: {mixed_version_header: folow_meta}
allowed_hosts: a.example
upstreams:
  files:
    command: npx
    tiemout: 30s
    transport: htp
    args: npx -y
    health: 5
  Big_Name: {url: 'http://a/'}
profiles:
  sse: {}
  ops: {upstreams: [1], zzz: 1}
sealing: {keys: [in-the-file]}
"), @r#"
    plasm.yaml:1:1: lisen: unknown key; did you mean "listen"?
    plasm.yaml:2:1: adminListen: unknown key; did you mean "admin_listen"?
    plasm.yaml:4:3: limits.request_bytes: expected a size such as "4MiB", "32KiB" or a number of bytes, found the text "4MB"
    plasm.yaml:5:3: limits.json_depth: 2 is below the least, 8
    plasm.yaml:6:3: limits.page_items: expected a whole number, found the text "many"
    plasm.yaml:7:12: timeouts.call: expected a duration such as "30s", "5m" or "250ms", found the number 30
    plasm.yaml:7:22: timeouts.body_read: 1ms is below the least, 100ms
    plasm.yaml:7:38: timeouts.header_read: 48h is above the most, 1h
    plasm.yaml:8:11: streams.keep_alive: 30s is above the most, 25s
    plasm.yaml:9:10: legacy.sessionless: expected true or false, found the text "yes"
    plasm.yaml:10:10: compat.mixed_version_header: expected one of reject, follow_meta, found the text "folow_meta"; did you mean "follow_meta"?
    plasm.yaml:11:1: allowed_hosts: expected a list, found text
    plasm.yaml:15:5: upstreams.files.tiemout: unknown key; did you mean "timeout"?
    plasm.yaml:16:5: upstreams.files.transport: expected one of auto, http, sse, stdio, found the text "htp"; did you mean "http"?
    plasm.yaml:17:5: upstreams.files.args: expected a list, found text
    plasm.yaml:18:5: upstreams.files.health: expected a map, found the number 5
    plasm.yaml:19:3: upstreams.Big_Name: expected an id of 1 to 20 characters of a-z, 0-9 and -, found "Big_Name"
    plasm.yaml:21:3: profiles.sse: "sse" is the name of a route, so no profile can bear it
    plasm.yaml:22:21: profiles.ops.upstreams[0]: expected text (in quotes where it looks like something else), found the number 1
    plasm.yaml:22:25: profiles.ops.zzz: unknown key
    plasm.yaml:23:18: sealing.keys[0]: this secret never stands in the file itself: write {env: NAME} or {file: PATH}
"#);
}

#[test]
fn rules_between_settings_are_told_with_their_place() {
    insta::assert_snapshot!(faults(
        "listen: 0.0.0.0:8080
admin_listen: 0.0.0.0:8080
upstreams:
  none: {enabled: true}
  both: {url: 'http://a/', command: a}
  url:
    url: http://a/
    transport: stdio
    args: [a]
    headers: {Host: a, Mcp-Name: b}
    forward_headers: [X-Ok, Cookie, Authorization, Host, Proxy-Authorization, TE]
  command: {command: a, transport: sse, forward_headers: [X-Ok]}
  sse: {url: 'http://a/', transport: sse, era: modern}
  same: {url: 'http://a/', rename: {a: x, b: x}}
profiles:
  ops:
    upstreams: [comand, url, url]
    rename: {url: {a: x}, sse: {b: x}, nobody: {c: y}}
  empty: {upstreams: []}
"), @r#"
    plasm.yaml:1:1: listen: 0.0.0.0:8080 is not a loopback address, and nobody has to log in here; listen on 127.0.0.1, set up auth, or say insecure_no_auth: true (--insecure-no-auth)
    plasm.yaml:2:1: admin_listen: is the address of listen as well
    plasm.yaml:4:3: upstreams.none: needs a url (an HTTP server) or a command (a stdio server)
    plasm.yaml:5:28: upstreams.both.command: stands beside url; an upstream has one of them
    plasm.yaml:8:5: upstreams.url.transport: stdio needs a command, and there is a url
    plasm.yaml:9:5: upstreams.url.args: belongs to a command, and there is a url
    plasm.yaml:10:15: upstreams.url.headers.Host: is set by the gateway itself
    plasm.yaml:10:24: upstreams.url.headers.Mcp-Name: is set by the gateway itself
    plasm.yaml:11:29: upstreams.url.forward_headers[1]: Cookie never goes upstream
    plasm.yaml:11:37: upstreams.url.forward_headers[2]: Authorization never goes upstream
    plasm.yaml:11:52: upstreams.url.forward_headers[3]: Host never goes upstream
    plasm.yaml:11:58: upstreams.url.forward_headers[4]: Proxy-Authorization never goes upstream
    plasm.yaml:11:79: upstreams.url.forward_headers[5]: TE never goes upstream
    plasm.yaml:12:25: upstreams.command.transport: needs a url, and there is a command
    plasm.yaml:12:41: upstreams.command.forward_headers: belongs to a url, and there is a command
    plasm.yaml:13:43: upstreams.sse.era: HTTP+SSE is spoken in the legacy era only
    plasm.yaml:14:43: upstreams.same.rename.b: "x" is already the new name of "a"
    plasm.yaml:17:17: profiles.ops.upstreams[0]: there is no upstream "comand"; did you mean "command"?
    plasm.yaml:17:30: profiles.ops.upstreams[2]: "url" stands twice
    plasm.yaml:18:33: profiles.ops.rename.sse.b: "x" is already the new name of "a" of "url"
    plasm.yaml:18:40: profiles.ops.rename.nobody: there is no upstream "nobody"
    plasm.yaml:19:11: profiles.empty.upstreams: is empty; leave it out for all upstreams
"#);
}

#[test]
fn a_wrong_type_never_shows_a_secret() {
    let text =
        faults("upstreams: {a: {url: 'http://u:sk-1@a/', headers: {X: [sk-2], Y: {inline: sk-3}, Z: 5}}}\n");
    assert!(!text.contains("sk-"), "{text}");
    insta::assert_snapshot!(text, @r#"
        plasm.yaml:1:17: upstreams.a.url: an address holds no credentials; put them into headers
        plasm.yaml:1:52: upstreams.a.headers.X: expected text, {env: NAME} or {file: PATH}
        plasm.yaml:1:63: upstreams.a.headers.Y: expected {env: NAME} or {file: PATH}
        plasm.yaml:1:82: upstreams.a.headers.Z: expected text, {env: NAME} or {file: PATH}; put quotes around the value
    "#);
}

#[test]
fn yaml_that_is_none_says_line_and_column() {
    insta::assert_snapshot!(faults("listen: 127.0.0.1:1\nupstreams: [a\n"), @"plasm.yaml:2:12: unclosed bracket '['");
    insta::assert_snapshot!(faults("limits:\n  json_depth: 9\n  json_depth: 9\n"), @"plasm.yaml:3:3: duplicate mapping key: json_depth not allowed here");
    insta::assert_snapshot!(faults("- a\n"), @"plasm.yaml:1:1: expected a map, found a list");
}

#[test]
fn variables_set_what_the_file_and_default_would() {
    let environment = [
        ("PLASM_MCP_LISTEN", "127.0.0.1:0"),
        ("PLASM_MCP_LIMITS_REQUEST_BYTES", "1MiB"),
        ("PLASM_MCP_LIMITS_JSON_DEPTH", "64"),
        ("PLASM_MCP_LEGACY_SESSIONLESS", "false"),
        ("PLASM_MCP_ALLOWED_HOSTS", "a.example, b.example"),
        ("PLASM_MCP_STREAMS_KEEP_ALIVE", ""),
    ];
    let loaded = load_files(Some("limits: {json_depth: 32}\n"), &[], &environment, Values::Needed).unwrap();
    let config = loaded.config;
    assert_eq!(
        (config.listen.port(), config.limits.request_bytes, config.limits.json_depth),
        (0, 1 << 20, 64)
    );
    assert_eq!((config.legacy.sessionless, config.allowed_hosts.len()), (false, 2));
    assert_eq!(config.streams, Default::default(), "an empty variable sets nothing");
    assert_eq!(loaded.overridden.len(), 5);

    let wrong = [
        ("PLASM_MCP_LISTEN", "8080"),
        ("PLASM_MCP_LIMITS_JSON_DEPTH", "deep"),
        ("PLASM_MCP_LEGACY_SESSIONLESS", "off"),
        ("PLASM_MCP_ALLOWED_HOSTS", "a.example,http://b"),
    ];
    insta::assert_snapshot!(load_files(None, &[], &wrong, Values::Needed).unwrap_err(), @r#"
        environment PLASM_MCP_LISTEN: listen: expected an address and port such as 127.0.0.1:8080, found "8080"
        environment PLASM_MCP_LIMITS_JSON_DEPTH: limits.json_depth: expected a whole number, found the text "deep"
        environment PLASM_MCP_LEGACY_SESSIONLESS: legacy.sessionless: expected true or false, found the text "off"
        environment PLASM_MCP_ALLOWED_HOSTS: allowed_hosts[1]: expected a host name, with or without :port, or *, found "http://b"
    "#);
}

#[test]
fn a_variable_that_sets_nothing_is_a_warning_unless_kubernetes_or_the_file_wanted_it() {
    let environment = [
        ("PLASM_MCP_LIMIT_REQUEST_BYTES", "1MiB"),
        ("PLASM_MCP_MY_TOKEN", "t"),
        ("PLASM_MCP_PORT", "tcp://10.0.0.1:80"),
        ("PLASM_MCP_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("PLASM_MCP_SERVICE_HOST", "10.0.0.1"),
        ("PLASM_MCP_CONFIG", "plasm.yaml"),
        ("HOME", "/"),
    ];
    let text = "upstreams: {a: {url: 'http://a/', headers: {X: {env: PLASM_MCP_MY_TOKEN}}}}\n";
    let loaded = load_files(Some(text), &[], &environment, Values::Needed).unwrap();
    insta::assert_snapshot!(texts(&loaded.warnings), @r#"environment PLASM_MCP_LIMIT_REQUEST_BYTES: no setting has this name; did you mean "PLASM_MCP_LIMITS_REQUEST_BYTES"?"#);
}

#[test]
fn mcp_servers_are_taken_as_each_client_writes_them() {
    let text = r#"
upstreams: {first: {url: "http://a/"}}
mcpServers:
  My Files: {command: npx, args: ["-y", "fs"], env: {A: b}, disabled: true, alwaysAllow: [x]}
  windsurf: {serverUrl: "https://w.example/mcp"}
"#;
    let vscode = r#"{"inputs": [], "servers": {
        "vs": {"type": "http", "url": "https://v.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
        "old": {"type": "sse", "url": "https://o.example/sse", "timeout": 60, "autoAprove": []}}}"#;
    let gemini =
        "{\n\t\"mcpServers\": {\"gem\": {\"httpUrl\": \"https://g.example/mcp\"}}, \"theme\": \"dark\"}";
    let loaded = load_files(Some(text), &[vscode, gemini], &[("TOKEN", "t0p")], Values::Needed).unwrap();
    let upstreams = &loaded.config.upstreams;
    assert_eq!(upstreams.keys().collect::<Vec<_>>(), ["first", "my-files", "windsurf", "vs", "old", "gem"]);
    assert!(!upstreams.get("my-files").unwrap().enabled);
    assert_eq!(upstreams.get("windsurf").unwrap().url.as_deref(), Some("https://w.example/mcp"));
    let transports = ["vs", "old", "gem"].map(|id| upstreams.get(id).unwrap().transport);
    assert_eq!(transports, [Transport::Auto, Transport::Sse, Transport::Http]);
    assert_eq!(loaded.config.served_profiles()[0].2, ["first", "windsurf", "vs", "old", "gem"]);
    insta::assert_snapshot!(texts(&loaded.warnings), @r#"
        mcp0.json: mcpServers.old.timeout: a number without a unit is ignored; write "30s"
        mcp0.json: mcpServers.old.autoAprove: unknown key; ignored
    "#);
}

#[test]
fn what_is_wrong_in_a_clients_file_is_told_by_path() {
    let clash = r#"{"mcpServers": {"My Files": {"command": "a"}, "my_files": {"command": "b"}, "日本": {"command": "c"},
        "x": {"url": "http://a/", "serverUrl": "http://b/"}, "y": {"type": "ws", "url": "http://a/"}}}"#;
    insta::assert_snapshot!(load_files(None, &[clash, "{\"a\": 1}", "[]"], &[], Values::Needed).unwrap_err(), @r#"
        mcp0.json: mcpServers.x.url: is given twice, in two clients' spellings
        mcp0.json: mcpServers.y.transport: expected one of auto, http, sse, stdio, found the text "ws"
        mcp0.json: mcpServers.my_files: its id "my-files" is taken by another upstream; give it another name
        mcp0.json: mcpServers.日本: the name has no character of a-z and 0-9 to make an id of
        mcp1.json: expected a map "mcpServers" (or "servers", as VS Code writes it)
        mcp2.json: expected a map "mcpServers" (or "servers", as VS Code writes it)
    "#);
    insta::assert_snapshot!(load_files(None, &["{\"mcpServers\": {,}}"], &[], Values::Needed).unwrap_err(), @"mcp0.json:1:17: key must be a string");
}

const WITH_VARIABLES: &str = "
upstreams:
  a:
    url: https://${env:A_HOST}/mcp
    headers: {Authorization: 'Bearer ${env:A_TOKEN}', X-Key: {env: A_KEY}, X-File: {file: /none/key}}
  b: {command: '${B_HOME:-/opt/b}/run', args: ['${B_ARG}', '$${B_ARG}'], cwd: '${userHome}'}
  off: {enabled: false, url: 'https://${env:NONE}/'}
sealing: {keys: [{env: SEAL}]}
";

#[test]
fn variables_are_filled_and_secrets_read_where_they_are_needed() {
    let text = WITH_VARIABLES.replace(", X-File: {file: /none/key}", "");
    let environment = [
        ("A_HOST", "a.example"),
        ("A_TOKEN", "t"),
        ("A_KEY", "k"),
        ("B_ARG", "arg"),
        ("HOME", "/h"),
        ("SEAL", "s"),
    ];
    let config = load_files(Some(&text), &[], &environment, Values::Needed).unwrap().config;
    let (a, b) = (config.upstreams.get("a").unwrap(), config.upstreams.get("b").unwrap());
    assert_eq!(a.url.as_deref(), Some("https://a.example/mcp"));
    assert_eq!(b.command.as_deref(), Some("/opt/b/run"));
    assert_eq!(b.args, ["arg", "${B_ARG}"]);
    assert_eq!(b.cwd.as_deref(), Some(std::path::Path::new("/h")));
}

#[test]
fn a_missing_variable_or_secret_is_an_error_to_run_and_a_warning_to_check() {
    let missing = load_files(Some(WITH_VARIABLES), &[], &[], Values::Needed).unwrap_err();
    insta::assert_snapshot!(missing, @r#"
        plasm.yaml:4:5: upstreams.a.url: the environment variable A_HOST is not set
        plasm.yaml:5:15: upstreams.a.headers.Authorization: the environment variable A_TOKEN is not set
        plasm.yaml:5:55: upstreams.a.headers.X-Key: the environment variable A_KEY is not set
        plasm.yaml:5:76: upstreams.a.headers.X-File: /none/key: cannot be read: No such file or directory (os error 2)
        plasm.yaml:6:48: upstreams.b.args[0]: the environment variable B_ARG is not set
        plasm.yaml:6:74: upstreams.b.cwd: the environment variable HOME is not set
        plasm.yaml:8:18: sealing.keys[0]: the environment variable SEAL is not set
    "#);
    let loaded = load_files(Some(WITH_VARIABLES), &[], &[], Values::AsWritten).unwrap();
    assert_eq!(loaded.warnings.len(), missing.lines().count());
    assert_eq!(loaded.config.upstreams.get("a").unwrap().url.as_deref(), Some("https://${env:A_HOST}/mcp"));
}

#[test]
fn a_filled_address_must_be_one() {
    let text = "upstreams: {a: {url: '${A}'}}\n";
    insta::assert_snapshot!(load_files(Some(text), &[], &[("A", "not an address")], Values::Needed).unwrap_err(), @"plasm.yaml:1:17: upstreams.a.url: expected an http:// or https:// address");
}

#[test]
fn stateless_mode_is_switched_by_its_old_variable_as_runbooks_write_it() {
    for (text, on) in [("1", true), ("true", true), ("0", false), ("", false)] {
        let loaded = load_files(None, &[], &[("PLASM_MCP_STATELESS", text)], Values::Needed).unwrap();
        assert_eq!(loaded.config.legacy.stateless, on, "{text:?}");
    }
}

#[test]
fn that_pods_do_not_share_what_a_child_keeps_is_said() {
    let shared = "store: {redis_url: 'redis://r'}\nsealing: {keys: [{env: K}]}\nupstreams:\n  a: {command: a}\n  b: {url: 'http://b/sse', transport: sse}\n  \
                  c: {command: c, stateless: true}\n  d: {url: 'http://d/'}\n  e: {command: e, enabled: false}\n";
    let said = |text: &str| {
        let loaded = load_files(Some(text), &[], &[("K", "k1:secret")], Values::Needed).unwrap();
        texts(&loaded.warnings)
    };
    insta::assert_snapshot!(said(shared), @r"
    plasm.yaml:4:3: upstreams.a: each pod has its own child or connection, so what this server keeps between calls differs from pod to pod; set internal_listen, or stateless: true where it keeps nothing
    plasm.yaml:5:3: upstreams.b: each pod has its own child or connection, so what this server keeps between calls differs from pod to pod; set internal_listen, or stateless: true where it keeps nothing
    ");
    insta::assert_snapshot!(said(&format!("internal_listen: 127.0.0.1:1\n{shared}")), @"");
    insta::assert_snapshot!(said("internal_listen: 127.0.0.1:1\nupstreams: {a: {command: a}}\n"), @"plasm.yaml:1:1: internal_listen: is not opened: without store.redis_url there are no other pods");
}
