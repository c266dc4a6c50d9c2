//! The way of one request: which transport, at which version, in which session of the upstream.

use super::channels::Channel;
use super::kept::Opened;
use super::trouble::Trouble;
use super::{Arc, Caller, Inner, Version};
use crate::upstream::credentials::{Bearer, InSession};
use crate::upstream::transport::{Route, Transport, UpstreamSessionId};
use crate::wire::Era;
use http::{HeaderName, HeaderValue, header};

#[derive(Clone)]
pub(super) struct Hop {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) version: Version,
    pub(super) session: Option<UpstreamSessionId>,
    /// The caller's session of a legacy upstream over HTTP.
    pub(super) opened: Option<Arc<Opened>>,
    /// The channel, held so that it is not taken for idle.
    pub(super) channel: Option<Arc<Channel>>,
}

impl Hop {
    fn over_http(http: &Arc<dyn Transport>, opened: Option<Arc<Opened>>) -> Hop {
        Hop {
            transport: http.clone(),
            version: opened.as_ref().and_then(|o| o.version).unwrap_or(Version::MODERN),
            session: opened.as_ref().and_then(|o| o.session.clone()),
            opened,
            channel: None,
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.era() == Era::Modern
    }
}

impl Inner {
    /// The way for this caller: the era is probed where it is not known, a session opened where there is none.
    pub(super) async fn hop(self: &Arc<Self>, caller: &Arc<Caller>) -> Result<Hop, Trouble> {
        let spoken = self.spoken.load().as_deref().copied();
        let spoken = match spoken {
            Some(spoken) => spoken,
            None => self.speak(caller).await?,
        };
        match (spoken.era(caller), &self.reach.http) {
            (Some(era), Some(http)) => {
                let opened = match era {
                    Era::Modern => None,
                    Era::Legacy => Some(self.opened(caller).await?),
                };
                Ok(Hop::over_http(http, opened))
            }
            _ => {
                let channel = self.channel(caller).await?;
                Ok(Hop {
                    transport: channel.transport.clone(),
                    version: channel.version,
                    session: None,
                    opened: None,
                    channel: Some(channel),
                })
            }
        }
    }

    /// The way where it is known already, as it mostly is: what every call takes without waiting.
    pub(super) fn known_hop(&self, caller: &Caller) -> Option<Hop> {
        let spoken = self.spoken.load().as_deref().copied()?;
        let http = self.reach.http.as_ref()?;
        match spoken.era(caller)? {
            Era::Modern => Some(Hop::over_http(http, None)),
            Era::Legacy => Some(Hop::over_http(http, Some(self.known_session(caller)?))),
        }
    }

    /// The route of a message in this hop. Of the client's headers those go that the configuration lists.
    pub(super) fn route(&self, caller: &Caller, hop: &Hop, params: Vec<(HeaderName, HeaderValue)>) -> Route {
        let (mut headers, forwarded) = (params, self.forwarded(caller));
        // Mostly there are none, and nothing need be made ready for them.
        if !forwarded.is_empty() {
            headers.extend(forwarded);
        }
        Route {
            version: Some(hop.version),
            session: hop.session.clone(),
            who: caller.session.key().clone(),
            headers,
            bearer: self.bearer_in(caller, hop),
        }
    }

    /// The credential of a caller's requests in this hop. A session is of one account, and of no other that its caller may
    /// have connected since.
    fn bearer_in(&self, caller: &Caller, hop: &Hop) -> Option<Bearer> {
        let bearer = self.bearer(caller)?;
        match &hop.opened {
            Some(opened) if opened.session.is_some() && self.is_personal() => {
                Some(Arc::new(InSession { bearer, account: opened.kept.account }))
            }
            _ => Some(bearer),
        }
    }

    /// The credential that a caller's requests bear.
    pub(super) fn bearer(&self, caller: &Caller) -> Option<Bearer> {
        self.reach.credentials.as_ref()?.of(Some(&caller.access))
    }

    /// Whether each caller comes with a credential of their own.
    pub(super) fn is_personal(&self) -> bool {
        self.reach.credentials.as_ref().is_some_and(|credentials| credentials.personal())
    }

    pub(super) fn forwarded(&self, caller: &Caller) -> Vec<(HeaderName, HeaderValue)> {
        if self.config.forward_headers.is_empty() {
            return Vec::new();
        }
        let listed = |name: &HeaderName| {
            self.config.forward_headers.contains(name)
                && *name != header::AUTHORIZATION
                && *name != header::COOKIE
        };
        caller.client.headers.iter().filter(|(name, _)| listed(name)).cloned().collect()
    }
}
