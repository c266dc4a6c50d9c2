//! Certificates of a test: an authority of its own, and what it issues, as the PEM files that settings name.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An authority that nobody else trusts, with its files.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub ca: PathBuf,
    folder: TempDir,
}

/// A certificate and its key.
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, folder.path().to_string_lossy());
        let certificate = params.self_signed(&key).expect("it signs itself");
        let ca = written(folder.path(), "ca.pem", &certificate.pem());
        Authority { issuer: Issuer::new(params, key), ca, folder }
    }

    /// For a server of these names (or addresses), or for a client, whose name is nobody's matter.
    pub fn issue(&self, names: &[&str]) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = names.first().cloned().unwrap_or_default();
        let params = CertificateParams::new(names).expect("names that certificates can bear");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        Issued {
            cert: written(self.folder.path(), &format!("{file}.pem"), &certificate.pem()),
            key: written(self.folder.path(), &format!("{file}.key"), &key.serialize_pem()),
        }
    }
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("the folder takes a file");
    file
}
