//! What a caller sees of an upstream that they have to connect an account at first: one tool, whose call says where.

use super::lists::Key;
use super::{About, Age, Arc, Call, Caller, Fault, Inner, Kind, Listing, Reply};
use crate::mcp::{CONNECT_TOOL, Item, Reason};
use crate::upstream::credentials::Lack;
use crate::wire::{Raw, json};

/// Whether this call of a tool is for the link itself.
pub(super) fn is_asked_for(call: &Call) -> bool {
    call.params.name().is_some_and(|name| name == CONNECT_TOOL)
}

fn is_to_connect<T>(outcome: &Result<T, Fault>) -> bool {
    matches!(outcome, Err(Fault::Ours(Reason::Connect { .. })))
}

impl Inner {
    /// As [`Inner::about`]; of an upstream that says nothing to this caller yet, that it has a tool.
    pub(super) async fn about_or_connect(self: Arc<Self>, caller: Arc<Caller>) -> Result<Arc<About>, Fault> {
        let about = self.clone().about(caller).await;
        if !is_to_connect(&about) {
            return about;
        }
        Ok(Arc::new(About {
            server_info: None,
            // What it will have is not known, and a legacy client is told of it once.
            capabilities: Raw::trusted(
                r#"{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true}}"#,
            ),
            instructions: None,
            ttl_ms: 0,
            private: true,
            missing: Vec::new(),
        }))
    }

    /// As [`Inner::list`]; of an upstream that lists nothing to this caller yet, the tool that says where to connect.
    pub(super) async fn list_or_connect(
        self: Arc<Self>,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> Result<Arc<Listing>, Fault> {
        let key = Key::of(&caller, kind);
        let listed = self.clone().list(caller, kind, age).await;
        if !is_to_connect(&listed) {
            return listed;
        }
        let mut listing = Listing::new(kind, if kind == Kind::Tool { vec![self.tool()] } else { Vec::new() });
        (listing.private, listing.ttl_ms) = (true, 0);
        let listing = Arc::new(listing);
        // Calls find the tool by what is known.
        if self.lists.known(&key).is_none() {
            self.lists.keep_stale(&key, &listing);
        }
        Ok(listing)
    }

    fn tool(&self) -> Item {
        let about = format!(
            "Connects the user's account at {}. Call it, have the user open the link that it gives, then list the tools again.",
            self.id()
        );
        let head = format!(r#"{{"name":{}"#, json::quote(CONNECT_TOOL));
        let body = format!(
            r#"{head},"title":{},"description":{},"annotations":{{"readOnlyHint":true}},"inputSchema":{{"type":"object","properties":{{}}}}}}"#,
            json::quote(&format!("Connect {}", self.id())),
            json::quote(&about),
        );
        let at = r#"{"name":"#.len() as u32;
        Item {
            name: CONNECT_TOOL.into(),
            name_span: at..head.len() as u32,
            body: Raw::trusted(body),
            headers: Arc::new([]),
        }
    }

    /// Answers a call of the tool.
    pub(super) async fn connect(&self, call: Call) -> Reply {
        let Some(bearer) = self.bearer(&call.caller) else {
            return Reply::fault(Reason::UnknownTool(CONNECT_TOOL.to_owned()));
        };
        match bearer.clone().token().await {
            Ok(Some(_)) => {
                let text = format!("The account at {} is connected; list the tools again.", self.id());
                let text = json::quote(&text);
                Reply::result(Raw::trusted(format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)))
            }
            Ok(None) | Err(Lack::Connect { .. }) => match bearer.link() {
                Some(url) => {
                    Reply::fault(Reason::Connect { upstream: self.id().clone(), url, by_url: false })
                }
                None => Reply::fault(Reason::Credential { upstream: self.id().clone() }),
            },
            Err(lack) => {
                let error = crate::upstream::transport::TransportError::Credential(lack);
                Reply::fault(super::trouble::Trouble::Way(error).into_fault(self.id(), true))
            }
        }
    }
}
