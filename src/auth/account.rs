//! The user's own page: accounts of theirs that are used on their behalf, clients that renew their access, browsers that are
//! logged in; and the end of each. Everyone sees and ends what is their own alone.

use super::browser::{Browser, Visitor, stale};
use super::form::Form;
use super::holdings::{Holding, Kind};
use super::html;
use super::pages::{Asked, Pages, Readers, not_allowed};
use super::server::families::Families;
use crate::mcp::{Principal, StoreAway};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Response, StatusCode};
use minijinja::{Value, context};
use std::sync::Arc;

/// What the page's forms are known by.
const ACCOUNT: &str = "account";

/// An account elsewhere that is used on a principal's behalf.
#[derive(Clone, Debug)]
pub struct Connected {
    /// What it is ended by.
    pub id: String,
    /// What it is called: an upstream's name.
    pub label: String,
    /// What is to be said of it: since when, until when.
    pub detail: String,
}

/// Whoever keeps such accounts.
pub trait Accounts: Send + Sync + 'static {
    fn list(&self, of: Arc<Principal>) -> BoxFuture<'static, Result<Vec<Connected>, StoreAway>>;

    /// Ends one of this principal's, if it is theirs.
    fn disconnect(&self, of: Arc<Principal>, id: String) -> BoxFuture<'static, Result<(), StoreAway>>;
}

/// The page.
pub struct Account {
    browser: Arc<Browser>,
    /// Where our authorisation server is on.
    families: Option<Arc<Families>>,
    accounts: Option<Arc<dyn Accounts>>,
}

impl Account {
    pub fn new(
        browser: Arc<Browser>,
        families: Option<Arc<Families>>,
        accounts: Option<Arc<dyn Accounts>>,
    ) -> Account {
        Account { browser, families, accounts }
    }

    async fn show(&self, asked: &Asked) -> Result<Response<Bytes>, StoreAway> {
        let Some(visitor) = self.browser.visitor(&asked.headers).await? else {
            return Ok(self.browser.ask(&asked.headers, "/account", false).await);
        };
        let principal = &visitor.principal;
        let accounts = match &self.accounts {
            Some(accounts) => accounts.list(principal.clone()).await?,
            None => Vec::new(),
        };
        let accounts = accounts.iter().map(|one| {
            context! { id => &one.id, label => html::plain(&one.label), detail => html::plain(&one.detail) }
        });
        let holdings = self.browser.holdings();
        let clients = holdings.list(principal, Kind::Family).await?;
        let sessions = holdings.list(principal, Kind::Session).await?;
        let fields = context! {
            user => &visitor.person.name,
            csrf => self.browser.token(&visitor, ACCOUNT),
            leave => self.browser.token(&visitor, "logout"),
            accounts => accounts.collect::<Vec<_>>(),
            clients => clients.iter().map(client).collect::<Vec<_>>(),
            sessions => sessions.iter().map(|held| session(held, &visitor)).collect::<Vec<_>>(),
        };
        Ok(html::page(StatusCode::OK, "account", "Your account", fields))
    }

    async fn change(&self, asked: &Asked) -> Result<Response<Bytes>, StoreAway> {
        let Some(visitor) = self.browser.visitor(&asked.headers).await? else { return Ok(stale()) };
        let form = Form::of_body(&asked.headers, &asked.body).unwrap_or_default();
        if !self.browser.is_own(&visitor, ACCOUNT, form.get("csrf")) {
            return Ok(stale());
        }
        let principal = &visitor.principal;
        if let Some(session) = form.get("session") {
            self.browser.end(principal, session).await?;
        }
        if let (Some(family), Some(families)) = (form.get("client"), &self.families)
            && self.browser.holdings().has(principal, Kind::Family, family).await?
        {
            families.end(family).await?;
        }
        if let (Some(account), Some(accounts)) = (form.get("account"), &self.accounts) {
            accounts.disconnect(principal.clone(), account.to_owned()).await?;
        }
        let back = html::see_other("/account");
        Ok(match form.get("session") == Some(visitor.session.as_str()) {
            // From there it is on to the login.
            true => html::onward(back, "You are logged out", "You are being taken to the login."),
            false => back,
        })
    }
}

impl Pages for Account {
    fn readers(&self, path: &str) -> Option<Readers> {
        (path == "/account").then_some(Readers::Browsers)
    }

    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>> {
        async move {
            let answer = match asked.verb {
                Method::GET | Method::HEAD => self.show(&asked).await,
                Method::POST => self.change(&asked).await,
                _ => return not_allowed("GET, POST"),
            };
            answer.unwrap_or_else(|StoreAway| html::store_away())
        }
        .boxed()
    }
}

fn client(held: &Holding) -> Value {
    let text = |name: &str| held.about[name].as_str().unwrap_or_default().to_owned();
    context! {
        id => &held.id, name => text("name"), host => text("host"), resource => text("resource"), scope => text("scope"),
        since => day(held.since),
    }
}

fn session(held: &Holding, visitor: &Visitor) -> Value {
    let agent = held.about.as_str().unwrap_or_default();
    context! { id => &held.id, agent, since => day(held.since), this => held.id == visitor.session }
}

/// A day of the Gregorian calendar, UTC: `2026-11-30` (days to civil date, as Howard Hinnant wrote it down).
pub fn day(seconds: u64) -> String {
    let days = i64::try_from(seconds / 86_400).unwrap_or(0) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (month, day) =
        (if shifted < 10 { shifted + 3 } else { shifted - 9 }, of_year - (153 * shifted + 2) / 5 + 1);
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let table = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_796_000_000, "2026-11-30")];
        for (seconds, written) in table {
            assert_eq!(day(seconds), written);
        }
    }
}
