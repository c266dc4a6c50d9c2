//! By which way a reply names a stored result first: the tool or the resource. Wording alone; never what a caller may read.

use std::fmt;

use crate::mcp::Client;

/// Clients that read by the tool: their hosts do not read resources for the model.
const TOOL: [&str; 5] =
    ["claude-code", "claude-api-mcp-connector", "anthropic/api", "anthropic/claudeai", "claude-ai"];
const RESOURCES: [&str; 4] = ["cursor-vscode", "cline", "visual studio code", "visual-studio-code"];
/// Parts of names that connectors of Anthropic's have had.
const CONNECTORS: [&str; 3] = ["anthropic", "claude-ai", "claude.ai"];
/// Parts of a `User-Agent`.
const TOOL_AGENTS: [&str; 3] = ["claude-code", "claude-user", "anthropic"];
const RESOURCE_AGENTS: [&str; 3] = ["cursor", "cline", "visual studio code"];
/// What a client says of itself is shown in logs up to so many characters.
const SHOWN: usize = 100;

/// How a client reads a stored result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// By `plasm_read_run_artifact`.
    ToolFallback,
    /// By `resources/read`.
    ResourcesRead,
}

impl fmt::Display for AccessMode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, to)
    }
}

/// What the operator says.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `PLASM_MCP_ARTIFACT_ACCESS`: for every client.
    pub mode: Option<AccessMode>,
    /// `PLASM_MCP_CLIENT_USER_AGENT`: in place of what requests say.
    pub user_agent: Option<String>,
}

/// The way that was chosen, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub mode: AccessMode,
    pub why: &'static str,
    /// The client is known: where not, the tool is listed in any case.
    pub known: bool,
}

impl AccessMode {
    /// `tool` or `resources`.
    pub fn read(text: &str) -> Option<AccessMode> {
        match text {
            "tool" => Some(AccessMode::ToolFallback),
            "resources" => Some(AccessMode::ResourcesRead),
            _ => None,
        }
    }

    /// For one transport of the earlier era. In the modern one what a client says of itself changes nothing: there
    /// [`Access::modern`] speaks.
    pub fn of(client: &Client, access: &Access) -> Resolved {
        let name = client.name().unwrap_or_default().to_lowercase();
        let agent = access.user_agent.as_deref().or(client.user_agent.as_deref()).unwrap_or_default();
        resolve(access.mode, &name, &agent.to_lowercase())
    }
}

impl Access {
    /// The way that replies of the modern era name first, beside the other.
    pub fn modern(&self) -> AccessMode {
        self.mode.unwrap_or(AccessMode::ResourcesRead)
    }
}

impl Resolved {
    /// Once for a transport.
    pub fn log(&self, client: &Client) {
        let info: Option<serde_json::Value> =
            client.info.as_ref().and_then(|info| serde_json::from_slice(info.text()).ok());
        let said = |field: &str| -> String {
            let text = info.as_ref().and_then(|info| info[field].as_str()).unwrap_or_default();
            text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
        };
        tracing::info!(
            client_info.name = said("name"),
            client_info.version = said("version"),
            mode = %self.mode,
            why = self.why,
            "resolved MCP artifact access mode"
        );
    }
}

/// Both texts are in lower case.
fn resolve(setting: Option<AccessMode>, name: &str, agent: &str) -> Resolved {
    use AccessMode::{ResourcesRead, ToolFallback};
    let by = |mode, why| Resolved { mode, why, known: true };
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    match setting {
        Some(mode) => by(mode, "setting"),
        None if TOOL.contains(&name) => by(ToolFallback, "client name"),
        None if RESOURCES.contains(&name) => by(ResourcesRead, "client name"),
        None if has(name, &CONNECTORS) => by(ToolFallback, "connector name"),
        None if has(agent, &TOOL_AGENTS) => by(ToolFallback, "user agent"),
        None if has(agent, &RESOURCE_AGENTS) => by(ResourcesRead, "user agent"),
        None => Resolved { mode: ResourcesRead, why: "unknown client", known: false },
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessMode::*, *};

    #[test]
    fn each_client_of_the_table_has_its_way() {
        for name in
            ["claude-code", "claude-api-mcp-connector", "Anthropic/API", "Anthropic/ClaudeAI", "CLAUDE-AI"]
        {
            assert_eq!(resolve(None, &name.to_lowercase(), "cursor/1").mode, ToolFallback, "{name}");
        }
        for name in ["cursor-vscode", "Cline", "Visual Studio Code", "Visual-Studio-Code"] {
            let way = resolve(None, &name.to_lowercase(), "claude-user");
            assert_eq!((way.mode, way.why), (ResourcesRead, "client name"), "{name}");
        }
    }

    #[test]
    fn the_setting_wins_then_names_then_parts_of_names_then_the_user_agent() {
        assert_eq!(resolve(Some(ResourcesRead), "claude-code", "").why, "setting");
        assert_eq!(resolve(None, "my anthropic connector", "cursor/1").why, "connector name");
        assert_eq!(resolve(None, "x", "claude-user/1.0").mode, ToolFallback);
        assert_eq!(resolve(None, "x", "cursor/1").why, "user agent");
    }

    #[test]
    fn a_bare_cursor_is_not_known() {
        let way = resolve(None, "cursor", "");
        assert_eq!((way.mode, way.known), (ResourcesRead, false));
    }
}
