//! The object store that keeps large results, from the configuration: a folder, or a cloud's bucket, which is spoken to over
//! the client that upstreams have. Knows nothing of what is stored.

use super::{StartError, outbound};
use crate::config::{Artifacts, Cloud, Config, ObjectPlace, Secret};
use crate::upstream::client::{ClientError, HttpClient};
use http::Uri;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient as Client, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use outbound::Ways;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One request, from its connection to the last byte of its answer: up to 16 MiB go either way.
const WITHIN: Duration = Duration::from_secs(30);
/// Largest answer, in bytes: an artifact, or a page of a thousand names.
const LARGEST: usize = 20 << 20;
/// Tries after the first of what may be tried again, and until when one begins.
const RETRIES: usize = 3;
const RETRY_WITHIN: Duration = Duration::from_secs(10);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Services that are spoken to at once: the store, whoever gives logins, and the machine's metadata.
const MOST_SERVICES: usize = 16;

/// The object store that the configuration names; none where it names none. Nothing is asked of it. Errors: a setting that
/// cannot be used.
pub(super) fn store(config: &Config) -> Result<Option<Arc<dyn ObjectStore>>, StartError> {
    let artifacts = &config.artifacts;
    match artifacts.place() {
        None => Ok(None),
        Some(ObjectPlace::Folder(folder)) => self::folder(&folder).map(Some),
        Some(ObjectPlace::Bucket { cloud, name, prefix }) => {
            let bucket = bucket(cloud, &name, artifacts, Ways::of(config)?)?;
            Ok(Some(match prefix.is_empty() {
                true => bucket,
                false => Arc::new(PrefixStore::new(bucket, prefix)),
            }))
        }
    }
}

fn setting(key: &str, why: impl Into<String>) -> StartError {
    StartError::Setting { key: format!("artifacts.{key}"), why: why.into() }
}

/// It must be there: one that was made here might not be the one that all pods see.
fn folder(folder: &Path) -> Result<Arc<dyn ObjectStore>, StartError> {
    let unusable = |why: std::io::Error| setting("store", format!("{}: {why}", folder.display()));
    let look = folder.metadata().map_err(unusable)?;
    if !look.is_dir() {
        return Err(setting("store", format!("{} is no folder", folder.display())));
    }
    writable(folder).map_err(unusable)?;
    let store = LocalFileSystem::new_with_prefix(folder);
    let store = store.map_err(|error| setting("store", error.to_string()))?;
    Ok(Arc::new(store.with_automatic_cleanup(true)))
}

/// Whether a file can be made there.
fn writable(folder: &Path) -> std::io::Result<()> {
    let name = folder.join(format!(".plasm-mcp-{}", std::process::id()));
    std::fs::write(&name, b"")?;
    std::fs::remove_file(&name)
}

fn bucket(
    cloud: Cloud,
    name: &str,
    artifacts: &Artifacts,
    ways: Ways,
) -> Result<Arc<dyn ObjectStore>, StartError> {
    let plain = artifacts.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let options = ClientOptions::new().with_allow_http(plain);
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: BACKOFF.0,
            max_backoff: BACKOFF.1,
            ..BackoffConfig::default()
        },
        max_retries: RETRIES,
        retry_timeout: RETRY_WITHIN,
    };
    let http = Http(Arc::new(Services { ways, clients: Mutex::default() }));
    let access = reveal("access_key", artifacts.access_key.as_ref())?;
    let secret = reveal("secret_key", artifacts.secret_key.as_ref())?;
    let endpoint = artifacts.endpoint.as_deref().map(|endpoint| endpoint.trim_end_matches('/'));
    let built: object_store::Result<Arc<dyn ObjectStore>> = match cloud {
        Cloud::S3 => {
            let mut builder = match (&access, &secret) {
                (Some(access), Some(secret)) => AmazonS3Builder::new()
                    .with_access_key_id(access.expose_secret())
                    .with_secret_access_key(secret.expose_secret()),
                _ => AmazonS3Builder::from_env(),
            };
            let of_environment =
                || ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|v| std::env::var(v).ok());
            if let Some(region) = artifacts.region.clone().or_else(of_environment) {
                builder = builder.with_region(region);
            }
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            let builder = builder.with_client_options(options).with_retry(retry).with_http_connector(http);
            builder.with_bucket_name(name).build().map(|store| Arc::new(store) as _)
        }
        Cloud::Google => {
            let mut builder = match &secret {
                Some(key) => GoogleCloudStorageBuilder::new().with_service_account_key(key.expose_secret()),
                None => GoogleCloudStorageBuilder::from_env(),
            };
            if let Some(endpoint) = endpoint {
                builder = builder.with_base_url(endpoint);
            }
            let builder = builder.with_client_options(options).with_retry(retry).with_http_connector(http);
            builder.with_bucket_name(name).build().map(|store| Arc::new(store) as _)
        }
        Cloud::Azure => {
            let mut builder = match &secret {
                Some(key) => MicrosoftAzureBuilder::new().with_access_key(key.expose_secret()),
                None => MicrosoftAzureBuilder::from_env(),
            };
            if let Some(account) = &artifacts.account {
                builder = builder.with_account(account);
            }
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.to_owned());
            }
            let builder = builder.with_client_options(options).with_retry(retry).with_http_connector(http);
            builder.with_container_name(name).build().map(|store| Arc::new(store) as _)
        }
    };
    built.map_err(|error| match (cloud, secret) {
        // What a parser says of a secret may repeat some of it.
        (Cloud::Google, Some(_)) => setting("secret_key", "is not the key file of a service account (JSON)"),
        (Cloud::Azure, Some(_)) => setting("secret_key", "is not the key of an account (base64)"),
        _ => setting("store", error.to_string()),
    })
}

/// A secret that stands in a header or is signed with.
fn reveal(key: &str, secret: Option<&Secret>) -> Result<Option<SecretString>, StartError> {
    let Some(secret) = secret else { return Ok(None) };
    let value = secret.reveal().map_err(|error| setting(key, error.to_string()))?;
    match key == "access_key" && !value.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Err(setting(key, "has characters that no access key id has")),
        false => Ok(Some(value)),
    }
}

/// What object stores speak HTTP by.
#[derive(Clone)]
struct Http(Arc<Services>);

struct Services {
    ways: Ways,
    /// By scheme, host and port. There are as many as the login takes, and no more.
    clients: Mutex<BTreeMap<String, HttpClient>>,
}

/// The client of one of a store's parts.
struct Spoken {
    services: Arc<Services>,
    /// Whether plain HTTP is spoken.
    plain: bool,
}

/// Why there is no answer. No text names an address or holds a part of a request.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("plain HTTP is spoken only with artifacts.endpoint")]
    Plain,
    #[error("too many services")]
    Many,
    #[error("the proxy before it cannot be used")]
    Proxy,
    #[error("it did not answer in time")]
    Late,
    #[error("its answer is larger than it may be")]
    TooLarge,
    #[error(transparent)]
    Broken(#[from] ClientError),
    #[error("the connection broke")]
    Cut,
}

impl From<NoAnswer> for HttpError {
    fn from(why: NoAnswer) -> HttpError {
        let kind = match &why {
            NoAnswer::Plain | NoAnswer::Many | NoAnswer::Proxy => HttpErrorKind::Unknown,
            NoAnswer::Late => HttpErrorKind::Timeout,
            NoAnswer::TooLarge => HttpErrorKind::Decode,
            NoAnswer::Broken(ClientError::Connect(_)) => HttpErrorKind::Connect,
            NoAnswer::Broken(ClientError::Broken(_)) | NoAnswer::Cut => HttpErrorKind::Interrupted,
        };
        HttpError::new(kind, why)
    }
}

impl Services {
    fn client(&self, uri: &Uri) -> Result<HttpClient, NoAnswer> {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let service = format!("{}://{authority}", uri.scheme_str().unwrap_or_default());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&service) {
            return Ok(client.clone());
        }
        if clients.len() >= MOST_SERVICES {
            return Err(NoAnswer::Many);
        }
        let client = HttpClient::new(self.ways.to(uri).map_err(|_| NoAnswer::Proxy)?);
        clients.insert(service, client.clone());
        Ok(client)
    }
}

impl Spoken {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, NoAnswer> {
        if request.uri().scheme_str() != Some("https") && !self.plain {
            return Err(NoAnswer::Plain);
        }
        let client = self.services.client(request.uri())?;
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| NoAnswer::Cut)?.to_bytes();
        let (head, body) = client.request(http::Request::from_parts(head, body)).await?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { NoAnswer::TooLarge } else { NoAnswer::Cut }
        })?;
        Ok(HttpResponse::from_parts(head, HttpResponseBody::from(body.to_bytes())))
    }
}

impl HttpConnector for Http {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<Client> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        Ok(Client::new(Spoken { services: Arc::clone(&self.0), plain }))
    }
}

/// Written out, for the trait is made by a macro that we do not use.
impl HttpService for Spoken {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = tokio::time::timeout(WITHIN, self.answer(request)).await;
            Ok(answer.unwrap_or(Err(NoAnswer::Late))?)
        })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Http")
    }
}

impl fmt::Debug for Spoken {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Spoken")
    }
}
