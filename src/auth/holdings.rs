//! What a principal has here: browsers that are logged in, clients with refresh tokens. One record a principal, so that a
//! page can list it and a person end it. It is a list alone: what it names stands elsewhere, and ends by itself.

use super::{digest_text, now};
use crate::mcp::{Principal, StoreAway};
use crate::store::{Key, Store, Sure, Write};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Most entries of one principal; further ones push the oldest out of the list.
const MOST: usize = 200;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A browser's session; its value is the browser's name.
    Session,
    /// A family of tokens.
    Family,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    #[serde(skip)]
    pub id: String,
    /// When it began, and when it ends by itself, in seconds since the epoch.
    pub since: u64,
    pub until: u64,
    /// What is to be said of it.
    pub about: Value,
}

/// The lists.
#[derive(Clone)]
pub struct Holdings {
    store: Arc<dyn Store>,
}

impl Kind {
    fn mark(self) -> &'static str {
        match self {
            Kind::Session => "s:",
            Kind::Family => "f:",
        }
    }
}

impl Holdings {
    pub fn new(store: Arc<dyn Store>) -> Holdings {
        Holdings { store }
    }

    /// Lists something for as long as it lives; again, where it lives on.
    pub async fn add(
        &self,
        of: &Principal,
        kind: Kind,
        id: &str,
        about: Value,
        life: Duration,
    ) -> Result<(), StoreAway> {
        let now = now();
        let all = self.read(of).await?;
        let name = format!("{}{id}", kind.mark());
        let since = all.iter().find(|(known, _)| *known == name).map_or(now, |(_, held)| held.since);
        let mut writes: Vec<Write> = Vec::new();
        let mut staying: Vec<_> = all.iter().filter(|(_, held)| held.until > now).collect();
        writes.extend(
            all.iter().filter(|(_, held)| held.until <= now).map(|(name, _)| Write::unset(name.as_str())),
        );
        staying.sort_by_key(|(_, held)| held.since);
        let over = (staying.len() + 1).saturating_sub(MOST);
        writes.extend(staying.iter().take(over).map(|(name, _)| Write::unset(name.as_str())));
        let held = Holding { id: String::new(), since, until: now + life.as_secs(), about };
        let held = serde_json::to_vec(&held).expect("entries are maps of plain values");
        let longest = staying.iter().map(|(_, held)| held.until - now).max().unwrap_or(0);
        writes.push(Write::set(name, held));
        writes.push(Write::Live(life.max(Duration::from_secs(longest))));
        self.write(of, writes).await
    }

    pub async fn remove(&self, of: &Principal, kind: Kind, id: &str) -> Result<(), StoreAway> {
        self.write(of, vec![Write::unset(format!("{}{id}", kind.mark()))]).await
    }

    /// Whether it is listed for this principal.
    pub async fn has(&self, of: &Principal, kind: Kind, id: &str) -> Result<bool, StoreAway> {
        let name = format!("{}{id}", kind.mark());
        Ok(self.read(of).await?.iter().any(|(known, _)| *known == name))
    }

    /// What there is, the newest first.
    pub async fn list(&self, of: &Principal, kind: Kind) -> Result<Vec<Holding>, StoreAway> {
        let now = now();
        let mut all: Vec<Holding> = self
            .read(of)
            .await?
            .into_iter()
            .filter_map(|(name, held)| {
                Some(Holding { id: name.strip_prefix(kind.mark())?.to_owned(), ..held })
            })
            .filter(|held| held.until > now)
            .collect();
        all.sort_by_key(|held| std::cmp::Reverse(held.since));
        Ok(all)
    }

    async fn read(&self, of: &Principal) -> Result<Vec<(String, Holding)>, StoreAway> {
        let record = self.store.get(key(of)).await.map_err(|_| StoreAway)?;
        let fields = record.iter().flat_map(|record| record.fields.iter());
        Ok(fields
            .filter_map(|(name, value)| Some((name.to_string(), serde_json::from_slice(value).ok()?)))
            .collect())
    }

    async fn write(&self, of: &Principal, writes: Vec<Write>) -> Result<(), StoreAway> {
        let writes = writes.into_iter().map(|write| (key(of), write)).collect();
        self.store.commit(vec![], writes, Sure::Master).await.map(drop).map_err(|_| StoreAway)
    }
}

fn key(of: &Principal) -> Key {
    Key::new(format!("oauth:p:{}", digest_text(of.identity().as_bytes())), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    #[tokio::test]
    async fn each_principal_has_a_list_of_its_own_and_a_bounded_one() {
        let holdings = Holdings::new(Arc::new(Memory::new(1 << 20)));
        let (a, b) = (Principal::minted("t", "i", "a"), Principal::minted("t", "i", "b"));
        let life = Duration::from_secs(60);
        for number in 0..MOST + 5 {
            holdings.add(&a, Kind::Family, &format!("{number}"), Value::Null, life).await.unwrap();
        }
        holdings.add(&a, Kind::Session, "s", "Firefox".into(), life).await.unwrap();
        assert!(holdings.list(&a, Kind::Family).await.unwrap().len() < MOST + 1);
        assert_eq!(holdings.list(&a, Kind::Session).await.unwrap()[0].about, "Firefox");
        assert!(holdings.list(&b, Kind::Session).await.unwrap().is_empty());
        assert!(!holdings.has(&b, Kind::Session, "s").await.unwrap());
        holdings.remove(&a, Kind::Session, "s").await.unwrap();
        assert!(!holdings.has(&a, Kind::Session, "s").await.unwrap());
    }
}
