//! The filter of a standing call: which changes its holder wants to hear of (2026-07-28 subscriptions).

use super::{Kind, Method};
use crate::wire::params::Params;
use crate::wire::{Raw, json};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(rename = "resourceSubscriptions", skip_serializing_if = "Vec::is_empty")]
    pub(super) uris: Vec<String>,
}

impl Filter {
    /// The filter in the params of a `subscriptions/listen`, as it was edited on its way here: in a profile of several,
    /// each is asked for its own part. What is no filter asks for nothing.
    pub(super) fn of(params: &Params) -> Filter {
        let written = |span| Raw::trusted(params.raw.written(span)).read().ok();
        params.filter.as_ref().and_then(written).unwrap_or_default()
    }

    pub(super) fn wants(&self, kind: Kind) -> bool {
        match kind {
            Kind::Tool => self.tools_list_changed,
            Kind::Prompt => self.prompts_list_changed,
            Kind::Resource | Kind::Template => self.resources_list_changed,
        }
    }

    /// What is left of it where the upstream tells of these kinds and URIs only.
    pub(super) fn within(&self, tells: impl Fn(Kind) -> bool, uris: Vec<String>) -> Filter {
        Filter {
            tools_list_changed: self.tools_list_changed && tells(Kind::Tool),
            prompts_list_changed: self.prompts_list_changed && tells(Kind::Prompt),
            resources_list_changed: self.resources_list_changed && tells(Kind::Resource),
            uris,
        }
    }

    /// Whether a change of the resource `uri` is asked for. It may be a part of what was subscribed to (2025-11-25
    /// resources, *Subscriptions*).
    pub(super) fn wants_uri(&self, uri: &str) -> bool {
        self.uris.iter().any(|wanted| {
            uri.strip_prefix(wanted.as_str()).is_some_and(|rest| {
                rest.is_empty() || wanted.ends_with('/') || rest.starts_with(['/', '#', '?'])
            })
        })
    }

    /// The params of an acknowledgement.
    pub(super) fn acknowledged(&self) -> Raw {
        let mut params = Raw::trusted("{}");
        params.insert_member(0, "notifications", &Raw::of(self).to_bytes());
        params.flat()
    }

    /// One notification for each thing asked for: after a gap nobody knows which of them changed.
    pub(super) fn everything(&self) -> Vec<(Method, Raw)> {
        let kinds = [
            (self.tools_list_changed, Method::ToolsChanged),
            (self.prompts_list_changed, Method::PromptsChanged),
            (self.resources_list_changed, Method::ResourcesChanged),
        ];
        let lists = kinds.into_iter().filter(|(wanted, _)| *wanted).map(|(_, m)| (m, Raw::trusted("{}")));
        let updated = self
            .uris
            .iter()
            .map(|uri| (Method::ResourceUpdated, Raw::trusted(format!(r#"{{"uri":{}}}"#, json::quote(uri)))));
        lists.chain(updated).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::of(&Params::read(Raw::trusted(format!(r#"{{"notifications":{text}}}"#))).unwrap())
    }

    #[test]
    fn a_filter_is_read_narrowed_and_acknowledged() {
        let asked = filter(
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:b"],"x":1}"#,
        );
        assert!(asked.wants(Kind::Tool) && !asked.wants(Kind::Template));
        let agreed = asked.within(|kind| kind == Kind::Prompt, vec!["a:b".into()]);
        assert_eq!(
            agreed.acknowledged().to_bytes(),
            r#"{"notifications":{"promptsListChanged":true,"resourceSubscriptions":["a:b"]}}"#
        );
        assert_eq!(filter("7"), Filter::default());
        assert_eq!(Filter::default().acknowledged().to_bytes(), r#"{"notifications":{}}"#);
    }

    #[test]
    fn after_a_gap_everything_asked_for_is_named_once() {
        let asked = filter(r#"{"resourcesListChanged":true,"resourceSubscriptions":["a\"b"]}"#);
        let names: Vec<_> = asked.everything().into_iter().map(|(m, p)| (m, p.to_bytes())).collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[1], (Method::ResourceUpdated, r#"{"uri":"a\"b"}"#.into()));
    }

    #[test]
    fn a_part_of_a_resource_is_of_that_resource_and_a_longer_name_is_not() {
        let asked = filter(r#"{"resourceSubscriptions":["file:///a","file:///d/"]}"#);
        for (uri, want) in
            [("file:///a", true), ("file:///a#x", true), ("file:///d/e", true), ("file:///ab", false)]
        {
            assert_eq!(asked.wants_uri(uri), want, "{uri}");
        }
    }
}
