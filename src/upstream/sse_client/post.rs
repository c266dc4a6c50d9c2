//! Messages to an HTTP+SSE upstream: a POST each, begun in the order in which they were said.

use super::{carrying, send};
use crate::upstream::channel::{Channel, Out, Outbound};
use crate::upstream::client::HttpClient;
use crate::upstream::credentials::Bearer;
use crate::upstream::transport::TransportError;
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// POSTs under way at a time; then the queue fills.
const AT_ONCE: usize = 32;
/// The next POST begins when the one before it was answered, and after this time at the latest: order is kept where
/// the upstream answers as it should, and one that answers only when the work is done holds up nobody for long.
const IN_ORDER: Duration = Duration::from_millis(250);
/// The answer to a POST says no more than that the message arrived.
const LONGEST: Duration = Duration::from_secs(60);
/// More of an answer's body is not read; its connection is then not used again.
const BODY: usize = 64 << 10;

pub(super) struct Post {
    pub(super) client: HttpClient,
    pub(super) place: Uri,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) bearer: Option<Bearer>,
}

/// Sends all there is to send, until the channel ends.
pub(super) async fn all(post: Arc<Post>, channel: Arc<Channel>, mut outbound: Outbound) {
    let mut sending = JoinSet::new();
    while let Some(out) = outbound.recv().await {
        let (arrived, answered) = oneshot::channel();
        let (post, channel) = (post.clone(), channel.clone());
        sending.spawn(async move { post.one(out, &channel, arrived).await });
        let _ = timeout(IN_ORDER, answered).await;
        while sending.try_join_next().is_some() {}
        if sending.len() >= AT_ONCE {
            sending.join_next().await;
        }
    }
    // What was said last still goes out: a refusal, a cancel.
    sending.join_all().await;
}

impl Post {
    async fn one(&self, out: Out, channel: &Channel, arrived: oneshot::Sender<()>) {
        let sent = timeout(LONGEST, self.send(&out, arrived)).await;
        let why = match sent {
            Ok(Ok(status)) if status.is_success() => return,
            // The session is gone with its stream, whatever the stream itself says.
            Ok(Ok(StatusCode::NOT_FOUND | StatusCode::GONE)) => {
                if let Some(id) = &out.id {
                    channel.fail(id, TransportError::Unreachable("its session is gone".into()));
                }
                return channel.end(TransportError::Broken);
            }
            Ok(Ok(status)) => TransportError::Refused { status: status.as_u16(), error: None },
            Ok(Err(why)) => why,
            Err(_) => TransportError::Timeout,
        };
        match &out.id {
            Some(id) => channel.fail(id, why),
            None => tracing::warn!(%why, "a notification or an answer did not reach an HTTP+SSE upstream"),
        }
    }

    async fn send(&self, out: &Out, arrived: oneshot::Sender<()>) -> Result<StatusCode, TransportError> {
        // The configuration's headers win over a caller's.
        let headers = out.headers.iter().chain(&self.headers).cloned();
        let request = carrying(&self.place, out.message.clone(), headers);
        let response = send(&self.client, self.bearer.as_ref(), request).await?;
        // Nobody waits any more where the answer was late.
        let _ = arrived.send(());
        let status = response.status();
        let _ = Limited::new(response.into_body(), BODY).collect().await;
        Ok(status)
    }
}
