//! What stands between edges and backends: a call, who makes it, and what comes back. No I/O.
//!
//! An edge turns wire into a [`Call`] and a [`Reply`] into wire; everything that answers is a [`Backend`]. Nothing
//! between the two knows which edge a call came by.

pub mod backend;
pub mod call;
pub mod caller;
pub mod fault;
pub mod kept;
pub mod listing;
pub mod nook;
pub mod places;
pub mod reply;
#[cfg(test)]
pub(crate) mod scripted;
mod seen;
pub mod trail;

pub use backend::{About, Age, Backend};
pub use call::{Call, Cancel, Resume};
pub use caller::{
    Access, Caller, CallerToken, Client, Principal, Scopes, Session, SessionId, StoreAway, UpstreamId,
};
pub use fault::{Fault, Reason, Ruling};
pub use kept::Kept;
pub use listing::{CONNECT_TOOL, Item, Kind, Listing};
pub use nook::{Memory, Nook};
pub use places::{NoPlace, Place, Places};
pub use reply::{Ask, Event, InputRequired, Note, Outcome, Reply};
pub use trail::{Track, Trail};
