//! Stored results, from the configuration: where they lie, by which way clients are told to read them, and the sweep of what
//! is over.

use super::{StartError, objects};
use crate::config::{ArtifactAccess, Config};
use crate::execute::artifacts::{Access, AccessMode, Artifacts, Objects};
use crate::store::Store;
use crate::telemetry::metrics;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The stored results of all sessions. Nothing is asked of the object store. Errors: a setting that cannot be used.
pub fn artifacts(config: &Config, store: Arc<dyn Store>) -> Result<Artifacts, StartError> {
    Ok(Artifacts::new(store, objects::store(config)?.map(Objects::new)))
}

/// By which way replies tell clients to read a stored result.
pub fn access(config: &Config) -> Access {
    let mode = match config.artifacts.access {
        ArtifactAccess::Auto => None,
        ArtifactAccess::Tool => Some(AccessMode::ToolFallback),
        ArtifactAccess::Resources => Some(AccessMode::ResourcesRead),
    };
    Access { mode, user_agent: config.artifacts.client_user_agent.clone() }
}

/// Says at the start whether the object store is at hand, and deletes what is over from time to time, until the pod leaves.
/// All pods come by so often; in each such time one of them does it.
pub async fn sweep(artifacts: Artifacts, every: Duration, leaving: CancellationToken) {
    if !artifacts.has_objects() {
        return;
    }
    if let Err(error) = artifacts.at_hand().await {
        tracing::warn!(
            why = error.cause(),
            "the object store is away: larger results are not kept until it is back"
        );
    }
    loop {
        // Not all pods at once.
        let lot = RandomState::new().hash_one(()) % 1_000;
        let wait = every.mul_f64(0.9 + 0.2 * lot as f64 / 1_000.0);
        tokio::select! {
            () = leaving.cancelled() => return,
            () = sleep(wait) => {}
        }
        // A sweep that is broken off is gone on with by the next.
        let swept = tokio::select! {
            () = leaving.cancelled() => return,
            swept = artifacts.sweep(every) => swept,
        };
        let outcome = match swept {
            Ok(None) => continue,
            Ok(Some(deleted)) => {
                metrics().artifacts_swept.inc_by(deleted as u64);
                tracing::info!(deleted, "objects of results whose time is over were swept");
                "done"
            }
            Err(error) => {
                tracing::warn!(
                    why = error.cause(),
                    "the object store was not swept; what is over stays until it is"
                );
                "failed"
            }
        };
        metrics().artifact_sweeps.with_label_values(&[outcome]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;
    use serde_json::json;

    fn of(settings: serde_json::Value) -> Result<Artifacts, StartError> {
        let config = serde_json::from_value(json!({ "artifacts": settings })).unwrap();
        artifacts(&config, Arc::new(Memory::new(1 << 20)))
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_refused_at_the_start_by_its_setting_and_no_secret_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let url = |path: &std::path::Path| format!("file://{}", path.display());
        let table = [
            (json!({"store": url(&folder.path().join("gone"))}), "artifacts.store: "),
            (json!({"store": url(&file)}), "artifacts.store: "),
            (json!({"store": "gs://b", "secret_key": "hidden"}), "artifacts.secret_key: "),
            (
                json!({"store": "gs://b", "secret_key": "{\"private_key\": \"hidden\"}"}),
                "artifacts.secret_key: ",
            ),
            (json!({"store": "az://b", "account": "a", "secret_key": "hidden!"}), "artifacts.secret_key: "),
            (
                json!({"store": "s3://b", "access_key": "hid\nden", "secret_key": "hidden"}),
                "artifacts.access_key: ",
            ),
            (
                json!({"store": "s3://b", "access_key": {"file": file}, "secret_key": "hidden"}),
                "artifacts.access_key: ",
            ),
        ];
        for (settings, want) in table {
            let said = of(settings.clone()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.starts_with(want) && !said.contains("hid"), "{settings}: {said:?}");
        }
        for settings in [json!({}), json!({"store": url(folder.path())})] {
            let artifacts = of(settings.clone()).unwrap();
            assert_eq!(artifacts.has_objects(), settings["store"].is_string());
            artifacts.at_hand().await.unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left by the look");
    }

    #[tokio::test]
    async fn a_store_that_is_away_does_not_hinder_the_start_and_says_why_without_its_login() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let artifacts = of(json!({
            "store": "s3://bucket/x", "endpoint": endpoint, "access_key": "hiddenid", "secret_key": "hidden"
        }));
        let error = artifacts.unwrap().at_hand().await.unwrap_err();
        assert!(error.cause().contains("connection refused"), "{}", error.cause());
        assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
    }

    #[tokio::test]
    async fn pods_sweep_what_is_over_from_time_to_time_until_they_leave() {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({ "artifacts": { "store": format!("file://{}", folder.path().display()) } });
        let config: Config = serde_json::from_value(config).unwrap();
        let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 20));
        let (leaving, often) = (CancellationToken::new(), Duration::from_millis(5));
        let pods: Vec<_> = (0..2)
            .map(|_| artifacts(&config, store.clone()).unwrap())
            .map(|artifacts| tokio::spawn(sweep(artifacts, often, leaving.clone())))
            .collect();
        // Again and again: what is over comes while they are at it.
        for hour in [1, 2] {
            let old = folder.path().join(format!("artifacts/{hour}/t/s/o"));
            std::fs::create_dir_all(old.parent().unwrap()).unwrap();
            std::fs::write(&old, "x").unwrap();
            let gone = async {
                while old.exists() || metrics().artifacts_swept.get() < hour {
                    sleep(often).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(25), gone).await.expect("it is swept");
        }
        leaving.cancel();
        for pod in pods {
            tokio::time::timeout(Duration::from_secs(25), pod).await.expect("it ends").unwrap();
        }
    }
}
