//! The settings of the place where blobs are kept.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;

use super::{Data, WrongSetting, is_loopback, on_or_off};
use crate::blobs::{BlobPlace, Bucket, Keys};

/// How the bucket of `--blobs s3://BUCKET` is reached.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct S3 {
    /// The address of the storage of s3://BUCKET, such as `https://s3.example.org` [default: Amazon's]
    #[arg(id = "s3.endpoint", long = "s3-endpoint", env = "AWS_ENDPOINT_URL", value_name = "URL")]
    pub endpoint: Option<String>,

    /// The region of s3://BUCKET
    // Amazon's first region. Other storage accepts it, too.
    #[arg(
        id = "s3.region",
        long = "s3-region",
        env = "AWS_REGION",
        value_name = "NAME",
        default_value = "us-east-1"
    )]
    pub region: String,

    /// Name s3://BUCKET in the path of addresses, not in the host [default: on if there is an endpoint]
    #[arg(
        id = "s3.path_style",
        long = "s3-path-style",
        env = "DIODE_S3_PATH_STYLE",
        value_name = "on|off",
        value_parser = on_or_off
    )]
    pub path_style: Option<bool>,

    /// Certificates (PEM) to trust instead of the public ones [default: none]
    #[arg(id = "s3.ca", long = "s3-ca", env = "AWS_CA_BUNDLE", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Reach the storage without TLS, in a network of one's own; on loopback it may always be without
    #[arg(id = "s3.allow_http", long = "s3-allow-http", env = "DIODE_S3_ALLOW_HTTP")]
    pub allow_http: bool,
}

impl Data {
    /// Where blobs are kept.
    pub fn place(&self) -> Result<BlobPlace, WrongSetting> {
        place(&self.blobs, &self.s3, &self.keys).map_err(WrongSetting)
    }
}

fn place(given: &Path, s3: &S3, keys: &Keys) -> anyhow::Result<BlobPlace> {
    let Some((scheme, rest)) = given.to_str().and_then(|given| given.split_once("://")) else {
        return Ok(BlobPlace::Folder(given.to_owned()));
    };
    const EXPECTED: &str = "expected a folder, s3://BUCKET or s3://BUCKET/PREFIX";
    if rest.contains('@') {
        bail!(
            "blobs: got keys in an address, {EXPECTED}; put the keys into AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY"
        );
    }
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if scheme != "s3" || !is_bucket(name) || !is_prefix(prefix) {
        bail!("blobs: got `{}`, {EXPECTED} (small letters, digits, `-`, `.`)", given.display());
    }
    let endpoint = s3.endpoint.as_deref().map(|given| checked(given, s3.allow_http)).transpose()?;
    Ok(BlobPlace::Bucket(Bucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
        region: s3.region.clone(),
        path_style: s3.path_style.unwrap_or(endpoint.is_some()),
        ca: s3.ca.clone(),
        allow_http: s3.allow_http,
        endpoint,
        keys: keys.clone(),
    }))
}

/// Checks an endpoint. Returns it without a slash at its end.
fn checked(given: &str, allow_http: bool) -> anyhow::Result<String> {
    if given.contains('@') {
        bail!(
            "s3.endpoint: got keys in an address; put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        );
    }
    let url = given.strip_suffix('/').unwrap_or(given);
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#']);
    match url.split_once("://") {
        Some(("https", host)) if is_host(host) => {}
        Some(("http", host)) if is_host(host) && (allow_http || is_loopback(host)) => {}
        Some(("http", host)) if is_host(host) => bail!(
            "s3.endpoint: got `{given}`, expected https://: others on the way could read what is sent; in a \
             network of your own allow it by --s3-allow-http"
        ),
        _ => {
            bail!("s3.endpoint: got `{given}`, expected a scheme and a name, such as https://s3.example.org")
        }
    }
    Ok(url.to_owned())
}

fn is_bucket(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (3..=63).contains(&name.len()) && name.bytes().all(plain)
}

fn is_prefix(prefix: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let part = |part: &str| !["", ".", ".."].contains(&part) && part.bytes().all(plain);
    prefix.is_empty() || prefix.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: &str, endpoint: Option<&str>) -> Result<BlobPlace, String> {
        let s3 = S3 {
            endpoint: endpoint.map(str::to_owned),
            region: "us-east-1".to_owned(),
            path_style: None,
            ca: None,
            allow_http: false,
        };
        place(given.as_ref(), &s3, &Keys::default()).map_err(|error| error.to_string())
    }

    fn bucket(given: &str, endpoint: Option<&str>) -> Bucket {
        match resolve(given, endpoint).unwrap() {
            BlobPlace::Bucket(bucket) => bucket,
            BlobPlace::Folder(folder) => panic!("{}", folder.display()),
        }
    }

    #[test]
    fn a_place_is_a_folder_or_a_bucket() {
        for folder in ["./diode-data", "/var/lib/diode", "s3", "s3:/x"] {
            assert!(matches!(resolve(folder, None), Ok(BlobPlace::Folder(found)) if found == *folder));
        }
        let amazon = bucket("s3://timings", None);
        assert_eq!((amazon.name.as_str(), amazon.prefix.as_str()), ("timings", ""));
        assert_eq!((amazon.address(), amazon.path_style), (None, false));
        let own = bucket("s3://timings/diode/test/", Some("http://127.0.0.1:9000/"));
        assert_eq!(own.prefix, "diode/test");
        assert_eq!(own.address().as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(BlobPlace::Bucket(own).to_string(), "s3://timings/diode/test");
        let hosted = Bucket { path_style: false, ..bucket("s3://timings", Some("https://s3.example.org")) };
        assert_eq!(hosted.address().as_deref(), Some("https://timings.s3.example.org"));
    }

    #[test]
    fn what_is_neither_is_refused_with_what_was_expected() {
        for bad in ["gs://timings", "s3://", "s3://Timings", "s3://timings/a//b", "s3://timings/../b"] {
            let error = resolve(bad, None).unwrap_err();
            assert!(error.contains(bad) && error.contains("s3://BUCKET/PREFIX"), "{error}");
        }
        for bad in ["s3.example.org", "ftp://s3.example.org", "https://s3.example.org/path", "https://"] {
            let error = resolve("s3://timings", Some(bad)).unwrap_err();
            assert!(error.contains(bad) && error.contains("https://s3.example.org"), "{error}");
        }
    }

    #[test]
    fn beyond_this_machine_there_is_tls_unless_it_is_allowed() {
        for near in ["http://localhost:9000", "http://127.0.0.1:9000", "http://[::1]:9000"] {
            assert_eq!(bucket("s3://timings", Some(near)).address().as_deref(), Some(near));
        }
        for far in ["http://storage:9000", "http://10.0.0.1", "http://127.0.0.1.example.org"] {
            let error = resolve("s3://timings", Some(far)).unwrap_err();
            assert!(error.contains("--s3-allow-http"), "{error}");
            assert_eq!(checked(far, true).unwrap(), far);
        }
    }

    #[test]
    fn keys_are_shown_nowhere() {
        for error in [
            resolve("s3://id:secret@timings", None).unwrap_err(),
            resolve("s3://timings", Some("https://id:secret@s3.example.org")).unwrap_err(),
        ] {
            assert!(error.contains("AWS_SECRET_ACCESS_KEY") && !error.contains("secret@"), "{error}");
        }
        let keys = Keys::new("id", "a-secret");
        let shown = format!("{:?}", Bucket { keys, ..bucket("s3://timings", None) });
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("a-secret"), "{shown}");
    }
}
