//! From a call to its reply, whatever edge it came by: what the gateway answers itself, and the rest to the backend.

use super::connect;
use super::gate::{Gate, Mount, server_info};
use super::pages;
use super::state::{self, Asker};
use crate::limits::Seat;
use crate::mcp::{
    About, Age, Backend, Call, Caller, Event, Fault, InputRequired, Kind, Note, Outcome, Place, Reason,
    Reply, Track,
};
use crate::session::Telling;
use crate::telemetry::metrics;
use crate::wire::params::Params;
use crate::wire::{Era, Method, Raw, Version, json};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use std::sync::Arc;

/// What follows the first event of a reply.
pub type Events = BoxStream<'static, Event>;

/// URIs that one `subscriptions/listen` may name: each may be a request of its own to an upstream.
const SUBSCRIPTIONS: usize = 1_000;

/// Runs a call up to its first event. A place among the calls in flight is held until the outcome.
pub async fn begin(gate: Arc<Gate>, mount: Arc<Mount>, call: Call) -> (Option<Event>, Events) {
    match placed(&gate, &mount, call).await {
        Reply::One(outcome) => (Some(Event::Done(outcome)), stream::empty().boxed()),
        Reply::Stream(mut events) => (events.next().await, events),
    }
}

/// Runs a call. A place among the calls in flight is held until the outcome.
pub async fn placed(gate: &Arc<Gate>, mount: &Mount, call: Call) -> Reply {
    let standing = call.method == Method::Listen;
    let seat = match &gate.limits {
        None => None,
        Some(limits) => match limits.seat(call.caller.principal(), &mount.name) {
            Ok(seat) => seat,
            Err(_) => return Reply::fault(Reason::Crowded),
        },
    };
    let Ok(place) = gate.places.take(&call.caller.principal().tenant) else {
        return Reply::fault(Reason::Full);
    };
    let reply = match begun(gate, mount, call) {
        Begun::Answered(reply) => reply,
        Begun::Running(running) => running.await,
        Begun::MayAsk(running, asker, came_back) => match running.await {
            // Most calls come to that, and nothing is to be done about it.
            reply @ Reply::One(Outcome::Result(_)) => reply,
            reply if came_back => resealed(gate, asker, reply),
            reply => {
                let reply = connect::asked(&asker, reply);
                resealed(gate, asker, reply)
            }
        },
    };
    hold((place, seat), standing, reply)
}

/// Goes on with a call that another pod began, as far as `track` says how. It was admitted there, so it waits for a place.
pub async fn rest(gate: &Arc<Gate>, mount: &Mount, call: Call, track: Option<Track>) -> Reply {
    let place = gate.places.wait(&call.caller.principal().tenant).await;
    let reply = match track {
        Some(track) => mount.backend.take_over(call, track).await,
        None => Reply::fault(Reason::Lost { safe: call.method.is_safe() }),
    };
    hold((place, None), false, reply)
}

/// The reply with a place among the calls in flight.
fn hold(place: (Place, Option<Seat>), standing: bool, reply: Reply) -> Reply {
    match reply {
        Reply::One(outcome) => Reply::One(outcome),
        Reply::Stream(events) => {
            // A standing stream costs no place: it works for nobody while it waits.
            let place = (!standing).then_some(place);
            let events = events.map(move |event| {
                let _held = &place;
                event
            });
            Reply::Stream(events.boxed())
        }
    }
}

/// What a call came to at once.
enum Begun<'a> {
    Answered(Reply),
    Running(BoxFuture<'a, Reply>),
    /// It may come back with a question, of which it says whom it is to be sealed for; and whether it brought the answer to one
    /// of ours.
    MayAsk(BoxFuture<'a, Reply>, Asker, bool),
}

/// Begins to answer a request. Multi-round state is opened here, to be sealed again in what comes back.
fn begun<'a>(gate: &'a Arc<Gate>, mount: &'a Mount, mut call: Call) -> Begun<'a> {
    let fault = |reason| Begun::Answered(Reply::fault(reason));
    let modern = call.caller.version.era() == Era::Modern;
    if let Some(kind) = Kind::of_method(&call.method) {
        return Begun::Running(list(gate, mount, call, kind).boxed());
    }
    match call.method {
        Method::Discover if modern => return Begun::Running(discover(mount, call.caller).boxed()),
        Method::Ping if !modern => return Begun::Answered(Reply::result(Raw::trusted("{}"))),
        // What only the other era has.
        Method::Ping | Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
            if modern =>
        {
            return fault(Reason::MethodNotFound);
        }
        Method::Listen if modern && subscriptions(&call.params) > SUBSCRIPTIONS => {
            let why = format!("more than {SUBSCRIPTIONS} resourceSubscriptions");
            return fault(Reason::InvalidParams(why.into()));
        }
        Method::Discover | Method::Listen if !modern => return fault(Reason::MethodNotFound),
        // Begun by the edge itself, or never sent by a client.
        Method::Initialize | Method::Elicit | Method::Sample | Method::RootsList => {
            return fault(Reason::MethodNotFound);
        }
        ref other if other.is_notification() => return fault(Reason::MethodNotFound),
        _ => {}
    }
    if !call.method.may_ask() {
        return Begun::Running(mount.backend.call(call));
    }
    let asker = Asker::of(&call);
    match state::open(&gate.keyring, &asker) {
        Ok(resume) => call.resume = resume,
        Err(reason) => return fault(reason),
    }
    let came_back = connect::take_answer(&mut call);
    Begun::MayAsk(mount.backend.call(call), asker, came_back)
}

/// How many URIs a filter names.
fn subscriptions(params: &Params) -> usize {
    let text = params.raw.text();
    let filter = params.filter.as_ref().and_then(|filter| json::lax_members(text, filter.start).ok());
    let uris = filter.unwrap_or_default().into_iter().find(|m| m.is("resourceSubscriptions"));
    uris.and_then(|uris| json::elements(text, uris.value.start)).map_or(0, |uris| uris.len())
}

fn resealed(gate: &Arc<Gate>, asker: Asker, reply: Reply) -> Reply {
    match reply {
        Reply::One(Outcome::InputRequired(asked)) => Reply::One(sealed(gate, &asker, asked)),
        Reply::One(outcome) => Reply::One(outcome),
        Reply::Stream(events) => {
            let gate = gate.clone();
            let sealed = events.map(move |event| match event {
                Event::Done(Outcome::InputRequired(asked)) => Event::Done(sealed(&gate, &asker, asked)),
                other => other,
            });
            Reply::Stream(sealed.boxed())
        }
    }
}

fn sealed(gate: &Gate, asker: &Asker, asked: InputRequired) -> Outcome {
    match undeclared(&asker.caller, &asked.result) {
        Some(required) => Outcome::Error(Reason::MissingCapability(required).into()),
        None => Outcome::InputRequired(state::seal(&gate.keyring, asker, asked)),
    }
}

/// The capabilities that the questions in `result` need and the client did not declare, as an object.
fn undeclared(caller: &Caller, result: &Raw) -> Option<Raw> {
    let view = crate::wire::results::ResultView::of(result);
    let asks = view.input_requests?;
    let text = result.text();
    let mut missing = serde_json::Map::new();
    for ask in json::lax_members(text, asks.start).unwrap_or_default() {
        let method = json::lax_members(text, ask.value.start)
            .ok()
            .and_then(|members| members.into_iter().find(|m| m.is("method")))
            .and_then(|m| json::string(text, &m.value).map(|name| Method::parse(&name)));
        if let Some(method) = method.filter(|m| !caller.client.answers(m))
            && let Some(key) = capability_of(&method)
        {
            missing.insert(key.to_owned(), serde_json::json!({}));
        }
    }
    (!missing.is_empty()).then(|| Raw::of(&missing))
}

/// The client capability that a server request needs.
pub fn capability_of(ask: &Method) -> Option<&'static str> {
    match ask {
        Method::Elicit => Some("elicitation"),
        Method::Sample => Some("sampling"),
        Method::RootsList => Some("roots"),
        _ => None,
    }
}

async fn list(gate: &Gate, mount: &Mount, call: Call, kind: Kind) -> Reply {
    let params = &call.params;
    let cursor = match &params.cursor {
        Some(span) if &params.raw.text()[span.start as usize..span.end as usize] == b"null" => None,
        Some(span) => match params.raw.string(span) {
            Some(cursor) => Some(cursor),
            None => return Reply::fault(Reason::InvalidParams("\"cursor\" must be a string".into())),
        },
        None => None,
    };
    // Later pages follow the list that the first one began.
    let age = if cursor.is_some() { Age::Known } else { Age::Fresh };
    let listing = tokio::select! {
        biased;
        () = call.cancel.cancelled() => return Reply::fault(Reason::Cancelled),
        listing = mount.backend.list(call.caller.clone(), kind, age) => listing,
    };
    match listing {
        Ok(listing) => {
            for part in &listing.missing {
                metrics().list_parts_missing.with_label_values(&[part.as_str()]).inc();
            }
            match pages::page(&gate.keyring, &call.caller, &listing, cursor.as_deref(), gate.rules.page_items)
            {
                Ok(page) => Reply::result(page),
                Err(reason) => Reply::fault(reason),
            }
        }
        Err(fault) => Reply::fault(fault),
    }
}

/// Tells the upstreams what `telling` was begun for, until it was not said again meanwhile: each telling is a request to
/// every upstream, so that many at once would be too many.
pub async fn tell(mount: &Mount, caller: &Arc<Caller>, note: Note, telling: &Telling) {
    loop {
        if let Err(fault) = mount.backend.tell(caller.clone(), note.clone()).await {
            tracing::debug!(?fault, "a client's notification did not reach an upstream");
        }
        if telling.is_over() {
            return;
        }
    }
}

async fn discover(mount: &Mount, caller: Arc<Caller>) -> Reply {
    let about = match mount.backend.about(caller).await {
        Ok(about) => about,
        Err(fault) => return Reply::fault(fault),
    };
    let mut result = described(&about);
    let versions: Vec<_> = Version::ALL.iter().map(|v| v.as_str()).collect();
    let scope: &[u8] = if about.private { b"\"private\"" } else { b"\"public\"" };
    result.insert_member(0, "cacheScope", scope);
    result.insert_member(0, "ttlMs", about.ttl_ms.to_string().as_bytes());
    result.insert_member(0, "supportedVersions", Raw::of(&versions).text());
    Reply::result(result)
}

/// The result of `initialize`. `told`: whether the client can be told anything that it did not ask for.
pub async fn handshake(backend: &dyn Backend, caller: Arc<Caller>, told: bool) -> Result<Raw, Fault> {
    let version = caller.version;
    let about = backend.about(caller).await?;
    let mut result = match told {
        true => described(&about),
        false => described(&About { capabilities: untold(&about.capabilities), ..(*about).clone() }),
    };
    result.insert_member(0, "serverInfo", server_info().text());
    result.insert_member(0, "protocolVersion", json::quote(version.as_str()).as_bytes());
    Ok(result)
}

/// What is left of capabilities where no notification can reach the client.
fn untold(capabilities: &Raw) -> Raw {
    let mut left: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&capabilities.to_bytes()).unwrap_or_default();
    left.remove("logging");
    for (_, kind) in left.iter_mut().filter(|(name, _)| matches!(&***name, "tools" | "prompts" | "resources"))
    {
        *kind = serde_json::json!({});
    }
    Raw::of(&left)
}

fn described(about: &About) -> Raw {
    let mut result = Raw::trusted("{}");
    result.insert_member(0, "capabilities", &about.capabilities.to_bytes());
    if let Some(instructions) = &about.instructions {
        result.insert_member(0, "instructions", json::quote(instructions).as_bytes());
    }
    if !about.missing.is_empty() {
        let ids: Vec<_> = about.missing.iter().map(|id| id.as_str()).collect();
        result.insert_member(0, "_meta", Raw::of(&serde_json::json!({"plasm/missing": ids})).text());
    }
    result
}
