//! Certificates, authorities and keys from PEM files, for connections that we open with TLS. Knows no protocol and no
//! setting's whole name: who asks says where the file was named.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};

/// What a `tls` group names: authorities that are trusted, and who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub ca: Option<PathBuf>,
    /// With `key`, or neither.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl Files {
    /// Who we are, where the group says it.
    pub fn identity(&self) -> Result<Option<Arc<CertifiedKey>>, TlsError> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => identity(cert, key).map(Some),
            _ => Ok(None),
        }
    }
}

/// The settings of a `tls` group, which name files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Ca,
    Cert,
    Key,
}

impl fmt::Display for Setting {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Setting::Ca => "ca",
            Setting::Cert => "cert",
            Setting::Key => "key",
        })
    }
}

/// A file that cannot be used. No text holds what is in it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", .file.display())]
pub struct TlsError {
    /// Which setting of the group named the file.
    pub setting: Setting,
    pub file: PathBuf,
    pub why: String,
}

/// Who we are to a server that asks: a certificate (with its chain after it) and its key.
fn identity(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(Setting::Cert, cert)?;
    let wrong = |why: String| TlsError { setting: Setting::Key, file: key.to_owned(), why };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(said(error, "private key")))?;
    let identity = CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider());
    identity.map(Arc::new).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => wrong(format!("is not the key of {}", cert.display())),
        error => wrong(error.to_string()),
    })
}

/// Adds the authorities of a bundle to those that are trusted.
pub fn trust(roots: &mut RootCertStore, bundle: &Path) -> Result<(), TlsError> {
    for certificate in certificates(Setting::Ca, bundle)? {
        roots.add(certificate).map_err(|error| TlsError {
            setting: Setting::Ca,
            file: bundle.to_owned(),
            why: format!("holds a certificate that cannot be an authority ({error})"),
        })?;
    }
    Ok(())
}

/// The authorities that browsers trust.
pub fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// A client that trusts these authorities, and shows this identity where it is asked for one.
pub fn client(roots: RootCertStore, identity: Option<Arc<CertifiedKey>>) -> ClientConfig {
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has all that TLS 1.2 and 1.3 need")
        .with_root_certificates(roots);
    match identity {
        Some(identity) => {
            client.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(identity)))
        }
        None => client.with_no_client_auth(),
    }
}

/// All certificates of a file, of which there is at least one.
fn certificates(setting: Setting, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError { setting, file: file.to_owned(), why };
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => Err(wrong(said(PemError::NoItemsFound, "certificate"))),
        Ok(list) => Ok(list),
        Err(error) => Err(wrong(said(error, "certificate"))),
    }
}

fn said(error: PemError, wanted: &str) -> String {
    match error {
        PemError::Io(why) => format!("cannot be read: {why}"),
        PemError::NoItemsFound => format!("holds no {wanted} in PEM form (-----BEGIN …-----)"),
        _ => "is not well-formed PEM".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_setting_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let pair = || rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (one, two) = (pair(), pair());
        let cert = written(folder.path(), "cert", &one.cert.pem());
        let key = written(folder.path(), "key", &one.signing_key.serialize_pem());
        let other = written(folder.path(), "other", &two.signing_key.serialize_pem());
        let text = written(folder.path(), "text", "secret words");
        let gone = folder.path().join("gone");

        identity(&cert, &key).unwrap();
        let mut roots = public_roots();
        let known = roots.len();
        trust(&mut roots, &cert).unwrap();
        assert_eq!(roots.len(), known + 1);

        let table = [
            (identity(&cert, &other).map(drop), Setting::Key, "is not the key of"),
            (identity(&key, &key).map(drop), Setting::Cert, "holds no certificate"),
            (identity(&cert, &cert).map(drop), Setting::Key, "holds no private key"),
            (identity(&cert, &gone).map(drop), Setting::Key, "cannot be read"),
            (trust(&mut roots, &text), Setting::Ca, "holds no certificate"),
            (trust(&mut roots, &gone), Setting::Ca, "cannot be read"),
        ];
        for (tried, setting, why) in table {
            let error = tried.unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
            assert!(error.to_string().starts_with(&format!("{}: ", error.file.display())), "{error}");
            assert!(error.why.contains(why) && !error.why.contains("secret words"), "{error}");
        }
    }
}
