//! Blobs in a bucket of S3-compatible storage.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::connection::Connector;
use super::place::Bucket;

/// Requests are tried again for at most this long, because somebody waits for the answer.
const RETRY_FOR: Duration = Duration::from_secs(4);
const RETRIES: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Fails if the bucket does not exist, does not answer or refuses access. The error says what to do.
pub(super) async fn open(bucket: &Bucket) -> Result<Arc<dyn ObjectStore>, Box<dyn Error + Send + Sync>> {
    let store = PrefixStore::new(connect(bucket)?, Path::parse(&bucket.prefix)?);
    if let Err(error) = store.list(None).try_next().await {
        let error = error.to_string();
        return Err(format!("{error}; {}", advice(&error)).into());
    }
    Ok(Arc::new(store))
}

fn connect(bucket: &Bucket) -> Result<AmazonS3, Box<dyn Error + Send + Sync>> {
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
        max_retries: RETRIES,
        retry_timeout: RETRY_FOR,
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_virtual_hosted_style_request(!bucket.path_style)
        // The request to remove many files at once is not needed, and some storage does not support it.
        .with_disable_bulk_delete(true)
        .with_http_connector(Connector::trusting(bucket.ca.as_deref())?)
        .with_retry(retry);
    if let Some(endpoint) = bucket.address() {
        // The settings have already checked whether the endpoint may be without TLS.
        builder = builder.with_endpoint(endpoint).with_allow_http(true);
    }
    for (name, value) in bucket.keys.values() {
        builder = builder.with_config(name.to_ascii_lowercase().parse()?, value);
    }
    Ok(builder.build()?)
}

/// Only the text of the library's error tells why listing failed.
fn advice(error: &str) -> &'static str {
    if error.contains("404 Not Found") {
        "create the bucket, which diode-server does not do by itself"
    } else if error.contains("401 Unauthorized") || error.contains("403 Forbidden") {
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: they must be allowed to list, read, write and delete there"
    } else {
        "check that the storage runs, its endpoint (--s3-endpoint or AWS_ENDPOINT_URL) and AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY"
    }
}
