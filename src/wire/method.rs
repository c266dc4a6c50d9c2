//! The methods and notifications of MCP by name. What we do not know stays what it was.

use super::json;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

macro_rules! methods {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// A JSON-RPC method. Names we do not know are kept, for extensions pass through.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $($name,)+
            Other(Arc<str>),
        }

        impl Method {
            pub fn parse(text: &str) -> Method {
                match text {
                    $($text => Method::$name,)+
                    other => Method::Other(other.into()),
                }
            }

            /// The method whose name is a JSON string as it stands, quotes included; `None` for what must be read to be known.
            pub fn of_token(token: &[u8]) -> Option<Method> {
                match token {
                    $(token if token == concat!("\"", $text, "\"").as_bytes() => Some(Method::$name),)+
                    _ => None,
                }
            }

            pub fn as_str(&self) -> &str {
                match self {
                    $(Method::$name => $text,)+
                    Method::Other(name) => name,
                }
            }

            /// The name as a JSON string, quotes included.
            pub fn token(&self) -> Cow<'_, str> {
                match self {
                    $(Method::$name => concat!("\"", $text, "\"").into(),)+
                    Method::Other(name) => json::quote(name).into(),
                }
            }

            /// As a label: one of few, `other` for names that we do not know.
            pub fn label(&self) -> &'static str {
                match self {
                    $(Method::$name => $text,)+
                    Method::Other(_) => "other",
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize",
    Ping = "ping",
    Discover = "server/discover",
    Listen = "subscriptions/listen",
    ToolsList = "tools/list",
    ToolsCall = "tools/call",
    PromptsList = "prompts/list",
    PromptsGet = "prompts/get",
    ResourcesList = "resources/list",
    TemplatesList = "resources/templates/list",
    ResourcesRead = "resources/read",
    ResourcesSubscribe = "resources/subscribe",
    ResourcesUnsubscribe = "resources/unsubscribe",
    Complete = "completion/complete",
    SetLevel = "logging/setLevel",
    TasksList = "tasks/list",
    TasksGet = "tasks/get",
    TasksUpdate = "tasks/update",
    TasksResult = "tasks/result",
    TasksCancel = "tasks/cancel",
    Elicit = "elicitation/create",
    Sample = "sampling/createMessage",
    RootsList = "roots/list",
    Initialized = "notifications/initialized",
    Cancelled = "notifications/cancelled",
    Progress = "notifications/progress",
    LogMessage = "notifications/message",
    ToolsChanged = "notifications/tools/list_changed",
    PromptsChanged = "notifications/prompts/list_changed",
    ResourcesChanged = "notifications/resources/list_changed",
    ResourceUpdated = "notifications/resources/updated",
    RootsChanged = "notifications/roots/list_changed",
    ElicitComplete = "notifications/elicitation/complete",
    Acknowledged = "notifications/subscriptions/acknowledged",
    TaskStatus = "notifications/tasks/status",
}

impl Method {
    pub fn is_notification(&self) -> bool {
        self.as_str().starts_with("notifications/")
    }

    /// Whether asking twice does no more than asking once, so that a lost answer may be asked for again.
    pub fn is_safe(&self) -> bool {
        use Method::*;
        matches!(
            self,
            Ping | Discover
                | ToolsList
                | PromptsList
                | ResourcesList
                | TemplatesList
                | ResourcesRead
                | PromptsGet
                | Complete
                | TasksGet
                | TasksList
                | SetLevel
                | ResourcesSubscribe
                | ResourcesUnsubscribe
        )
    }

    /// Whether the method may end in `input_required` (2026-07-28 MRTR, *Supported Requests*).
    pub fn may_ask(&self) -> bool {
        matches!(self, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
    }

    /// Whether a complete result carries `ttlMs` and `cacheScope` (2026-07-28 caching, *Cacheable Results*).
    pub fn is_cacheable(&self) -> bool {
        use Method::*;
        matches!(self, Discover | ToolsList | PromptsList | ResourcesList | TemplatesList | ResourcesRead)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name may hold line breaks, and what is shown so goes into logs.
        write!(f, "{}", self.as_str().escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_method_of_its_text() {
        for name in ["tools/call", "ping", "tools/calls", "", "own"] {
            let method = Method::parse(name);
            let token = method.token();
            let known = Method::of_token(token.as_bytes());
            assert_eq!(known, (!matches!(method, Method::Other(_))).then_some(method.clone()), "{name}");
            assert_eq!(Method::of_token(name.as_bytes()), None);
        }
    }

    #[test]
    fn no_name_breaks_the_line_that_shows_it() {
        assert_eq!(format!("{:?}", Method::parse("a\nb")), "a\\nb");
        assert_eq!(format!("{:?}", Method::ToolsCall), "tools/call");
    }
}
