//! Runs the server until it is told to stop.

use std::future::Future;
use std::io::Write as _;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::App;
use crate::backend::Backend;
use crate::router::router;
use crate::settings::Settings;
use crate::worker;

/// Serves until `stop` resolves, then lets running requests end. With `train`,
/// the jobs are worked on in this process, too.
pub async fn serve(
    settings: &Settings,
    train: bool,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let backend = Backend::open(settings).await?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on {}; is another server running?", settings.listen))?;
    let (tell, stopping) = watch::channel(false);
    let working = train.then(|| tokio::spawn(worker::run(backend.clone(), stopping.clone())));
    let store = backend.store.clone();
    let app = router(App::new(backend, stopping.clone()));
    // Scripts wait for this line to learn the port.
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
        let mut stopping = stopping;
        // A dropped sender means the same.
        let _ = stopping.wait_for(|stop| *stop).await;
    });
    let served = async {
        tokio::pin!(stop);
        let serving = serving.into_future();
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return ended,
            () = &mut stop => tracing::info!("stopping"),
        }
        // An error means that no receiver is left, which is fine.
        let _ = tell.send(true);
        serving.await
    }
    .await;
    let _ = tell.send(true);
    if let Some(working) = working {
        working.await?;
    }
    store.close().await;
    Ok(served?)
}

/// Resolves on SIGINT or SIGTERM.
pub async fn signalled() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
