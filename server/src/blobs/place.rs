//! Where blobs are kept: a folder, or a bucket of S3-compatible storage.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::path::PathBuf;

/// The variables with which programs prove to the storage who they are, under the names that the storage's own
/// tools read. There is no flag or setting for them, because others could read it.
const KEYS: [&str; 9] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// Where blobs are kept.
#[derive(Debug, Clone)]
pub enum BlobPlace {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// A bucket, and how to reach it.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub name: String,
    /// The start of the names of all files in the bucket; may be empty.
    pub prefix: String,
    /// The address of the storage; `None` for Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    /// Whether addresses have the bucket's name in their path. Otherwise they have it in their host.
    pub path_style: bool,
    /// Certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// Whether an endpoint beyond this machine may be without TLS.
    pub allow_http: bool,
    pub keys: Keys,
}

impl Bucket {
    /// The address that requests go to; `None` for Amazon's own.
    pub fn address(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        match endpoint.split_once("://") {
            Some((scheme, host)) if !self.path_style => Some(format!("{scheme}://{}.{host}", self.name)),
            _ => Some(endpoint.to_owned()),
        }
    }
}

impl Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => Display::fmt(&folder.display(), f),
            Self::Bucket(bucket) => Display::fmt(bucket, f),
        }
    }
}

impl Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix, .. } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{name}{slash}{prefix}")
    }
}

/// The values that prove to the storage who asks, by the names of their variables. They are never shown.
#[derive(Clone, Default)]
pub struct Keys(BTreeMap<&'static str, String>);

impl Keys {
    /// An access key and its secret.
    pub fn new(id: &str, secret: &str) -> Self {
        let [id_name, secret_name, ..] = KEYS;
        Self([(id_name, id.to_owned()), (secret_name, secret.to_owned())].into())
    }

    /// Without any of them, the library uses the identity of the machine, which Amazon's machines have.
    pub fn from_environment() -> Self {
        let given = |name| Some((name, std::env::var(name).ok().filter(|value| !value.is_empty())?));
        Self(KEYS.into_iter().filter_map(given).collect())
    }

    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
