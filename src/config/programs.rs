//! Programs of stdio servers that are not where the gateway would look for them: a configuration that is right and cannot
//! work here, as in the image for HTTP upstreams. Starts nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Config, Upstream, problem::KeyPath};

/// What to say of each command that would not start here, by the `PATH` of this environment. Without one nothing is known.
pub(super) fn missing(config: &Config, environment: &[(String, String)]) -> Vec<(KeyPath, String)> {
    let Some((_, path)) = environment.iter().find(|(name, _)| name == "PATH") else { return Vec::new() };
    let mut missing = Vec::new();
    for (id, upstream) in config.enabled_upstreams() {
        let Some(command) = unresolved(upstream, path) else { continue };
        let message = format!(
            "{command:?} is not found here: this server starts only where its program is installed (deploy/stdio.Dockerfile \
             makes an image with one)"
        );
        missing.push((KeyPath::of(&["upstreams", id, "command"]), message));
    }
    missing
}

/// The command, if it is surely not there. What holds variables, or is looked up by a `PATH` or folder of its own, may be.
fn unresolved<'a>(upstream: &'a Upstream, path: &str) -> Option<&'a str> {
    let command = upstream.command.as_deref().filter(|command| !command.contains("${"))?;
    if upstream.env.keys().any(|name| name == "PATH") {
        return None;
    }
    let found = if command.starts_with('/') {
        is_program(Path::new(command))
    } else if command.contains('/') {
        true
    } else {
        std::env::split_paths(path).any(|folder| is_program(&folder.join(command)))
    };
    (!found).then_some(command)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_nowhere_on_path_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, mode: u32| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            file.display().to_string()
        };
        let whole = place("there", 0o755);
        place("text", 0o644);
        let path = format!("/nowhere:{}", folder.path().display());
        let told = |command: &str, env: &str| {
            let upstream =
                serde_json::from_str(&format!("{{\"command\": {command:?}, \"env\": {env}}}")).unwrap();
            unresolved(&upstream, &path).is_some()
        };
        for there in ["there", whole.as_str(), "${HOME}/x", "./relative/to/its/cwd"] {
            assert!(!told(there, "{}"), "{there}");
        }
        for nowhere in ["absent", "text", "/nowhere/there"] {
            assert!(told(nowhere, "{}"), "{nowhere}");
        }
        assert!(!told("absent", "{\"PATH\": \"/its/own\"}"));
    }
}
