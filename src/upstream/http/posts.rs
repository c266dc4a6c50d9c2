//! What all POSTs to an upstream have in common, by what they say of the protocol: most of a head is written once, and not with
//! each message. Knows no sessions and no callers.

use crate::upstream::client::{HttpClient, Usual};
use crate::wire::{Method, Version, headers};
use http::{HeaderMap, HeaderValue, Uri};

pub(super) struct Posts {
    /// Before a version is negotiated.
    unsaid: Usual,
    /// In the order of [`Version::ALL`].
    of_version: [Usual; Version::ALL.len()],
    /// Calls of tools in the modern era, which most of its requests are: they name their method as well.
    calls: Usual,
}

impl Posts {
    /// To an absolute address, with these headers besides.
    pub(super) fn new(client: &HttpClient, url: &Uri, headers: &HeaderMap) -> Posts {
        let post = |headers| client.usual(http::Method::POST, url.clone(), headers);
        let said = |version: Version| {
            let mut headers = headers.clone();
            headers.insert(&headers::PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
            headers
        };
        let mut calls = said(Version::MODERN);
        calls.insert(&headers::METHOD, HeaderValue::from_static("tools/call"));
        Posts {
            unsaid: post(headers.clone()),
            of_version: Version::ALL.map(|version| post(said(version))),
            calls: post(calls),
        }
    }

    /// Of a message at this version.
    pub(super) fn of(&self, version: Option<Version>) -> &Usual {
        let at = version.and_then(|version| Version::ALL.iter().position(|known| *known == version));
        at.map_or(&self.unsaid, |at| &self.of_version[at])
    }

    /// Of a request, and whether that names its method.
    pub(super) fn of_request(&self, version: Option<Version>, method: &Method) -> (&Usual, bool) {
        match version == Some(Version::MODERN) && *method == Method::ToolsCall {
            true => (&self.calls, true),
            false => (self.of(version), false),
        }
    }
}
