use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::scrape::router;
use crate::backend::Backend;
use crate::listen::{Patience, listen};

/// Serves the figures on their own listener until `stopping` turns true.
pub(crate) fn tell(
    listener: TcpListener,
    backend: &Backend,
    mut stopping: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let router = router(backend);
    tokio::spawn(async move {
        let stop = async {
            // A dropped sender also means that the process stops.
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        listen(listener, router, Patience::FEW, None, stop).await;
    })
}

/// Opens the listener. Called before anything else is opened, because this may fail.
pub(crate) async fn listening(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for metrics"))?;
    tracing::info!("metrics on http://{}/metrics", listener.local_addr()?);
    Ok(listener)
}
