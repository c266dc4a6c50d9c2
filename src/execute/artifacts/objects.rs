//! Where large results lie: any object store, under names that say when they end, for whom, and nothing else. What has
//! ended is deleted by name, so that what no record knows of goes too.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path};

use super::{ArtifactError, blocks::hash};
use crate::{
    clock::unix_ms,
    execute::logical::{Handle, random},
    store::{Check, Commit, Key, Store, Sure, Write},
};

const ROOT: &str = "artifacts";
const HOUR_MS: u64 = 3_600_000;

/// An object store of ours.
#[derive(Clone)]
pub struct Objects(Arc<dyn ObjectStore>);

impl Objects {
    pub fn new(store: Arc<dyn ObjectStore>) -> Objects {
        Objects(store)
    }

    /// Stores it and reads it again: after this it is known to be there, as it was given.
    pub(super) async fn put(
        &self,
        tenant: &str,
        session: &Handle,
        life: Duration,
        bytes: Bytes,
    ) -> Result<String, ArtifactError> {
        // Rounded up: an object outlives its record by an hour at most, and is never gone before it.
        let hour = (unix_ms() + life.as_millis() as u64) / HOUR_MS + 1;
        let (tenant, session) = (hash(tenant.as_bytes()), hash(session.as_str().as_bytes()));
        let name = format!("{ROOT}/{hour}/{}/{}/{}", &tenant[..32], &session[..32], random());
        let path = Path::from(name.as_str());
        let whole = hash(&bytes);
        self.0.put(&path, bytes.into()).await.map_err(told)?;
        let back = self.0.get(&path).await.map_err(told)?.bytes().await.map_err(told)?;
        match hash(&back) == whole {
            true => Ok(name),
            false => Err(ArtifactError::Damaged),
        }
    }

    /// `Unknown` where the object is gone.
    pub(super) async fn get(&self, name: &str, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        match self.0.get_range(&Path::from(name), range).await {
            Err(object_store::Error::NotFound { .. }) => Err(ArtifactError::Unknown),
            other => other.map_err(told),
        }
    }

    /// At once, if it can be; the sweep finds what is left.
    pub(super) async fn drop(&self, name: &str) {
        if let Err(error) = self.0.delete(&Path::from(name)).await {
            let why = ArtifactError::from(error).cause();
            tracing::debug!(why, "an artifact's object stays until it is swept");
        }
    }

    /// Deletes every object whose time is over, and says how many there were; `None` where it is another pod's turn, which
    /// lasts so long.
    pub async fn sweep(&self, store: &dyn Store, turn: Duration) -> Result<Option<usize>, ArtifactError> {
        let key = Key::new("artifacts", "sweep");
        let mine = vec![(key.clone(), Write::set("by", "1")), (key.clone(), Write::Live(turn))];
        match store.commit(vec![(key, Check::Absent)], mine, Sure::Master).await? {
            Commit::Failed { .. } => Ok(None),
            Commit::Done(_) => self.delete_before(unix_ms() / HOUR_MS).await.map(Some),
        }
    }

    /// Whether the store answers.
    pub(super) async fn at_hand(&self) -> Result<(), ArtifactError> {
        self.0.list_with_delimiter(Some(&Path::from(ROOT))).await?;
        Ok(())
    }

    /// Those that end before that hour, counted since 1970.
    async fn delete_before(&self, now: u64) -> Result<usize, ArtifactError> {
        let hours = self.0.list_with_delimiter(Some(&Path::from(ROOT))).await?.common_prefixes;
        let over = |hour: &Path| hour.parts().nth(1).and_then(|hour| hour.as_ref().parse::<u64>().ok());
        let mut deleted = 0;
        for hour in hours.iter().filter(|hour| over(hour).is_some_and(|hour| hour < now)) {
            let names = self.0.list(Some(hour)).map_ok(|object| object.location).boxed();
            let mut gone = self.0.delete_stream(names);
            while let Some(one) = gone.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => deleted += 1,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(deleted)
    }

    #[cfg(test)]
    pub(super) async fn sweep_as_of(&self, hour: u64) -> usize {
        self.delete_before(hour).await.unwrap()
    }
}

/// For the operator: the caller learns only that it can be tried again.
fn told(error: object_store::Error) -> ArtifactError {
    let error = ArtifactError::from(error);
    tracing::warn!(why = error.cause(), "the object store fails");
    error
}
