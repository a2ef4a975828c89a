//! Runs the server until it is told to stop.

use std::future::Future;
use std::io::Write as _;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::accounts::{Policy, Provider, first_account_link};
use crate::app::App;
use crate::backend::Backend;
use crate::listen::{Patience, listen};
use crate::router::router;
use crate::settings::Settings;
use crate::store::{Store, work_on};
use crate::tls::Tls;
use crate::{agents, metrics, workloads};

/// Serves until `stop` resolves, then gives running requests some time to end. With `train`, this process
/// also works on jobs.
pub async fn serve(
    settings: &Settings,
    train: bool,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    // Everything that may be wrong with the settings comes first, so that a server that does not start leaves
    // no files.
    let provider = settings.check()?;
    let Settings { serving, data } = settings;
    let published = serving.releases()?;
    let listener = TcpListener::bind(serving.listen)
        .await
        .with_context(|| format!("cannot listen on {}; is another server running?", serving.listen))?;
    let figures = match serving.metrics_listen {
        Some(address) => Some(metrics::listening(address).await?),
        None => None,
    };
    let policy = serving.access.policy(listener.local_addr()?);
    let tls = serving.access.tls().map(Tls::open).transpose()?;
    let provider = provider.map(|openid| Provider::new(&openid, &policy.public_url)).transpose()?;
    let backend = Backend::open(data).await?;
    let _working = work_on(&data.database_url)?;
    let (tell, stopping) = watch::channel(false);
    let working = train.then(|| tokio::spawn(crate::jobs::worker::run(backend.clone(), stopping.clone())));
    let refreshing = tokio::spawn(crate::boards::run(backend.clone(), stopping.clone()));
    let looking =
        tokio::spawn(crate::jobs::trainings::run(backend.clone(), serving.training, stopping.clone()));
    let renewing = tls.clone().map(|tls| tokio::spawn(tls.renew(stopping.clone())));
    tokio::task::spawn_blocking(|| {
        agents::get_ready();
        workloads::get_ready();
    });
    let store = backend.store.clone();
    greet(backend.store.as_ref(), &policy).await?;
    let mut hosts = serving.hosts.clone();
    hosts.extend(policy.host());
    let figures = figures.map(|listener| metrics::tell(listener, &backend, stopping.clone()));
    let app =
        App::new(backend, policy, stopping).answering_to(hosts).with_provider(provider).comparing(published);
    // The first poll begins to catch signals. It comes before anybody learns that the server runs.
    let mut stop = std::pin::pin!(stop);
    let stopped = futures_util::poll!(&mut stop).is_ready();
    // Scripts wait for this line to learn the port.
    let scheme = if tls.is_some() { "https" } else { "http" };
    writeln!(std::io::stdout(), "listening on {scheme}://{}", listener.local_addr()?)?;
    let stop = async {
        if !stopped {
            stop.await;
        }
        tracing::info!("stopping");
        // An error means that nothing listens any more, which is fine.
        let _ = tell.send(true);
    };
    let patience = Patience::default();
    // The database and the blobs need files, too.
    let files = metrics::file_limit().map_or(0, |files| usize::try_from(files / 2).unwrap_or(0));
    let silent = files.saturating_sub(patience.connections).clamp(patience.connections / 8, patience.silent);
    // All clients of a proxy, and all clients on this machine, have the same address.
    let from_one = if tls.is_some() { patience.connections / 4 } else { patience.connections };
    listen(listener, router(app), Patience { from_one, silent, ..patience }, tls, stop).await;
    if let Some(working) = working {
        working.await?;
    }
    looking.await?;
    if let Some(renewing) = renewing {
        renewing.await?;
    }
    if let Some(figures) = figures {
        figures.await?;
    }
    refreshing.await?;
    store.close().await;
    Ok(())
}

/// If there is no account yet, prints how to make the first account.
async fn greet(store: &Store, policy: &Policy) -> anyhow::Result<()> {
    if store.has_no_accounts().await? {
        let link = first_account_link(store, policy).await?;
        // If stderr cannot be written to, the server goes on, because `admin create` can make the account,
        // too.
        let _ = writeln!(
            std::io::stderr(),
            "There are no accounts yet. This link makes the first, an administrator; it works once, until {}, if nobody signs up before:\n{}",
            link.expires.strftime("%F %R UTC"),
            link.url
        );
    }
    Ok(())
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
