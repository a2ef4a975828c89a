//! Where blobs are kept: a folder, or a bucket of S3-compatible storage.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::path::PathBuf;

/// How the storage is told who asks, by the names that its own tools read. They are in no file of settings
/// and no flag, which others could read.
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

/// A bucket, and how it is reached.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub name: String,
    /// What the names of all files in the bucket begin with; may be empty.
    pub prefix: String,
    /// The storage's address, unless it is Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    /// Whether the bucket's name is in the path of addresses, or else in their host.
    pub path_style: bool,
    /// Certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// Whether the endpoint may be without TLS beyond this machine.
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

/// What tells the storage who asks, by the names of the variables. The values are never shown.
#[derive(Clone, Default)]
pub struct Keys(BTreeMap<&'static str, String>);

impl Keys {
    /// An access key and its secret.
    pub fn new(id: &str, secret: &str) -> Self {
        let [id_name, secret_name, ..] = KEYS;
        Self([(id_name, id.to_owned()), (secret_name, secret.to_owned())].into())
    }

    /// Without any, the storage is asked as the machine, as Amazon's machines can.
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
