use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::scrape::router;
use crate::backend::Backend;
use crate::listen::{Patience, listen};

/// Tells figures on a listener of their own until `stopping` turns true.
pub(crate) async fn tell(
    address: SocketAddr,
    backend: &Backend,
    mut stopping: watch::Receiver<bool>,
) -> anyhow::Result<JoinHandle<()>> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for metrics"))?;
    tracing::info!("metrics on http://{}/metrics", listener.local_addr()?);
    let router = router(backend);
    Ok(tokio::spawn(async move {
        let stop = async {
            // A dropped sender also means that the process stops.
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        listen(listener, router, Patience::FEW, None, stop).await;
    }))
}
