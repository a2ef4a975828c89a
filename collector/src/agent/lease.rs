//! One lease: the agent asks for it, measures its problems while it renews the lease and sends results, and ends it.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use diode_api::{
    AGENT_KEY, Agent, Breadth, GivenBack, Lease, LeaseAnswer, LeaseRequest, LeaseSummary, LeasedProblem,
    Reach, Receipt, RefusedWork, Registration, Renewal,
};
use diode_core::baselines::Baseline;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::{AgentId, Digest, LeaseId};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Dataset, Invalid, Problem};
use diode_formats::Format;
use diode_model::{Model, Ranker};
use serde::de::DeserializeOwned;
use ureq::RequestBuilder;
use ureq::typestate::WithBody;

use crate::agent::Worker;
use crate::collect::journal::Journal;
use crate::devices::{Outcome, add_libraries};
use crate::input::models::shipped_for;
use crate::interrupt::Interrupt;
use crate::output::{count, log};
use crate::server::{Answer, Answered, Client, Trouble, document, successful, wait_for};

/// The server, as an agent asks it that it knows.
pub(super) struct Registered<'a> {
    client: &'a Client,
    id: AgentId,
    /// Proves that a request comes from the agent.
    key: String,
}

impl<'a> Registered<'a> {
    /// Makes the agent known to the server.
    pub(super) fn new(client: &'a Client, registration: &Registration) -> Answered<Self> {
        let agent: Agent = judged(client.post_json("/agents", registration))?;
        Ok(Self { client, id: agent.id, key: registration.key.clone() })
    }

    pub(super) fn lease(&self, seconds: f64) -> Answered<LeaseAnswer> {
        judged(self.posting("leases").send_json(LeaseRequest { seconds }))
    }

    pub(super) fn renew(&self, lease: &LeaseId) -> Answered<Renewal> {
        judged(self.posting(&format!("leases/{lease}/renewal")).send_json(()))
    }

    pub(super) fn end(&self, lease: &LeaseId, refused: Vec<RefusedWork>) -> Answered<LeaseSummary> {
        judged(self.posting(&format!("leases/{lease}/end")).send_json(GivenBack { refused }))
    }

    fn deliver(&self, lease: &LeaseId, bytes: &[u8]) -> Answered<Receipt> {
        let request = self.posting(&format!("leases/{lease}/results"));
        judged(request.content_type("application/octet-stream").send(bytes))
    }

    fn posting(&self, path: &str) -> RequestBuilder<WithBody> {
        let Self { client, id, key } = self;
        client.posting(&format!("/agents/{id}/{path}")).header(AGENT_KEY, key)
    }
}

fn judged<T: DeserializeOwned>(answer: Result<Answer, ureq::Error>) -> Answered<T> {
    successful(answer).and_then(document)
}

/// The pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause. The server may be away for hours. With long pauses, not all agents ask in the second
/// in which it is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Asks until the server answers. `None` if the agent is to stop before that.
pub(super) fn patiently<T>(
    interrupt: &Interrupt,
    mut ask: impl FnMut() -> Answered<T>,
) -> Option<Answered<T>> {
    let mut pause = FIRST_PAUSE;
    while !interrupt.requested() {
        match ask() {
            Err(Trouble::Away(error, asked)) => {
                let wait = wait_for(asked, pause);
                tell!(Warning, { "seconds": wait.as_secs() }, "{error:#}; trying again in {} s", wait.as_secs());
                interrupt.sleep(wait);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return Some(other),
        }
    }
    None
}

impl Worker<'_> {
    /// Measures the problems of a lease, and gives back the problems that it did not measure.
    pub(super) fn work_on(&mut self, agent: &Registered<'_>, lease: Lease) -> anyhow::Result<()> {
        let before = self.tally;
        self.gives_back = false;
        let (began, expected) = (Instant::now(), lease.work.iter().map(|work| work.seconds).sum::<f64>());
        tell!(
            Info,
            { "lease": lease.id, "problems": lease.work.len(), "expected_seconds": expected },
            "lease {:.8}: {}, about {expected:.0} s",
            lease.id.as_str(),
            count(lease.work.len(), "problem"),
        );
        let (lost, outbox, device) =
            (AtomicBool::new(false), Arc::clone(&self.outbox), self.device.registration.name.clone());
        let (lost, outbox, device, id) = (&lost, &outbox, &device, &lease.id);
        let measured = thread::scope(|scope| {
            // Dropping the sender `_alive` ends the renewals.
            let (_alive, ended) = channel();
            // Two renewals in a row may fail before the lease ends.
            let every = Duration::from_secs((lease.expires_in / 3).max(1));
            scope.spawn(move || renew_until(&ended, every, agent, id, lost));
            let (added, news) = channel();
            let sending = scope.spawn(move || {
                log::on_device(device);
                outbox.send_all(&news, agent)
            });
            // If the server has taken the lease back, it may give the rest to another agent. If sending has failed,
            // more results would not help.
            let is_over = || lost.load(Ordering::Relaxed) || sending.is_finished();
            let refused = self.measure_all(&lease, &is_over, &added);
            drop(added);
            let sent = sending.join();
            sent.unwrap_or_else(|_| bail!("the thread that sends results ended unexpectedly")).and(refused)
        });
        let (refused, failure) = match measured {
            Ok(refused) => (refused, None),
            // The device has failed. The lease goes back all the same.
            Err(error) => (Vec::new(), Some(error)),
        };
        if self.outbox.len() == 0 || self.shared.interrupt.requested() || self.gives_back || failure.is_some()
        {
            // The results have arrived, or can be sent after the lease has ended. If all problems are done, the
            // server has ended the lease already and this request changes nothing.
            match agent.end(&lease.id, refused) {
                Err(Trouble::Away(error, _)) => {
                    tell!(Warning, {}, "the lease could not be given back: {error:#}");
                }
                Err(Trouble::Fatal(error)) => return Err(error),
                Ok(_) | Err(Trouble::Ended(_) | Trouble::Unknown(_) | Trouble::Refused(_)) => {}
            }
        }
        let (measured, refused) =
            (self.tally.measured - before.measured, self.tally.refused - before.refused);
        let seconds = began.elapsed().as_secs_f64();
        tell!(
            Info,
            { "lease": lease.id, "measured": measured, "refused": refused, "seconds": seconds },
            "lease {:.8}: {} measured, {refused} refused, in {seconds:.0} s",
            lease.id.as_str(),
            count(measured, "problem"),
        );
        failure.map_or(Ok(()), Err)
    }

    /// Measures the problems of a lease until it is over, and says after each that there may be a result to send.
    /// Returns the problems that the device cannot measure.
    fn measure_all(
        &mut self,
        lease: &Lease,
        is_over: &dyn Fn() -> bool,
        added: &Sender<()>,
    ) -> anyhow::Result<Vec<RefusedWork>> {
        /// A lease may last this many times as long as it was expected to, and no less than this time. Then the rest goes
        /// back: the server thought the device faster than it is.
        const MOST_TIMES: f64 = 2.0;
        const LEAST: f64 = 60.0;
        let mut refused = Vec::new();
        if !self.get_kernels(lease)? {
            return Ok(refused);
        }
        let expected: f64 = lease.work.iter().map(|work| work.seconds).sum();
        let (started, most) = (Instant::now(), (MOST_TIMES * expected).max(LEAST));
        for work in &lease.work {
            if started.elapsed().as_secs_f64() > most {
                say!(
                    "this takes more than {MOST_TIMES} times as long as expected; the rest of the lease goes back"
                );
                self.gives_back = true;
                break;
            }
            if self.shared.interrupt.requested() || is_over() || !self.may_go_on() {
                break;
            }
            self.note("measuring");
            // Only measuring counts as work that needs a rest. Waiting for the server does not.
            let began = Instant::now();
            let refusal = self.measure(lease, work)?;
            self.worked = began.elapsed();
            if let Some((reason, reach)) = refusal {
                let problem = format!("{} {}", work.problem.op, work.problem.dims());
                tell!(Warning, { "problem": problem, "reason": reason }, "cannot measure {problem}: {reason}");
                if let (Reach::Agent, Some(kernels)) = (reach, self.shared.kernels) {
                    kernels.note_lack();
                }
                refused.push(RefusedWork { problem: work.problem.id(), reason, reach });
                self.tally.refused += 1;
            }
            // If sending has failed, nobody receives this, and `work_on` tells why.
            let _ = added.send(());
        }
        Ok(refused)
    }

    /// Measures one problem into the outbox. If the device cannot measure the problem, returns the reason and
    /// whom the reason concerns.
    fn measure(&mut self, lease: &Lease, work: &LeasedProblem) -> anyhow::Result<Option<(String, Reach)>> {
        let mut configs = match self.configs.choose(work) {
            Ok(configs) => configs,
            Err(reason) => return Ok(Some((reason.to_string(), Reach::Hardware))),
        };
        if self.device.library {
            add_libraries(&mut configs, &work.problem);
        }
        let began = Instant::now();
        let outcome =
            self.device.meter.measure(&work.problem, &configs, &|| self.shared.interrupt.insisted())?;
        self.tally.measuring += began.elapsed();
        match outcome {
            Outcome::Measured { measured, .. } if measured.timed.is_empty() && measured.failed.is_empty() => {
                Ok(Some(("there are no configs for it".to_owned(), Reach::Hardware)))
            }
            Outcome::Measured { measured, quality } => {
                self.tally.kernels += Duration::from_nanos(quality.busy_ns);
                let method = self.device.meter.method();
                let node = (self.device.hardware.clone(), self.device.provenance.clone());
                let result = measured.into_dataset(node, work.problem.clone(), method)?;
                self.outbox.add(&lease.id, result)?;
                self.tally.measured += 1;
                Ok(None)
            }
            // Another node may have more kernels or more free memory, so the reason concerns this agent only.
            Outcome::Refused(reason) => Ok(Some((reason, Reach::Agent))),
            Outcome::Abandoned => Ok(None),
        }
    }
}

/// Renews a lease until the sender of `ended` is dropped, or the server has taken the lease back: then `lost` is set.
fn renew_until(
    ended: &Receiver<()>,
    every: Duration,
    agent: &Registered<'_>,
    lease: &LeaseId,
    lost: &AtomicBool,
) {
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        // If the server is away, the lease goes on. What is measured meanwhile is sent later.
        if let Err(Trouble::Ended(_) | Trouble::Unknown(_)) = agent.renew(lease) {
            lost.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// The name of the node fact that states which lease a dataset was measured for.
const LEASE: &str = "lease";

/// What a device has measured and the server has not acknowledged yet. It is in a journal on disk.
pub(super) struct Outbox {
    contents: Mutex<Contents>,
    /// The folder for results that the server refuses.
    refused: PathBuf,
}

struct Contents {
    journal: Journal,
    /// The results in the journal, in the order in which they were measured.
    waiting: VecDeque<Arc<Dataset>>,
}

impl Outbox {
    /// Opens the outbox, with what an earlier process left in it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut journal = Journal::beside(path);
        journal.open()?;
        let waiting = journal.entries()?.into_iter().map(Arc::new).collect();
        let contents = Mutex::new(Contents { journal, waiting });
        Ok(Self { contents, refused: path.with_added_extension("refused") })
    }

    pub(super) fn len(&self) -> usize {
        self.contents().waiting.len()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a result. It is on disk when this returns.
    pub(super) fn add(&self, lease: &LeaseId, mut result: Dataset) -> anyhow::Result<()> {
        result.provenance.node.insert(LEASE.to_owned(), lease.to_string());
        let mut contents = self.contents();
        contents.journal.append(&result)?;
        contents.waiting.push_back(Arc::new(result));
        Ok(())
    }

    /// Sends the waiting results one after the other, and drops each that the server acknowledges. Only one
    /// thread at a time may call this; other threads may add results meanwhile.
    pub(super) fn send(&self, agent: &Registered<'_>) -> Answered<()> {
        loop {
            let Some(result) = self.contents().waiting.front().cloned() else { break };
            let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(&*result))
                .map_err(anyhow::Error::from)?;
            let lease = result.provenance.node.get(LEASE).and_then(|lease| lease.parse().ok());
            // Every result should name its lease. If one does not, this made-up id is sent; the server stores
            // the result all the same.
            let unknown = LeaseId::of(&bytes);
            let mut answer = agent.deliver(lease.as_ref().unwrap_or(&unknown), &bytes);
            // If this device took the lease before it signed in, the server now knows it as another agent.
            // The lease still belongs to the old one.
            if matches!(answer, Err(Trouble::Ended(_))) {
                answer = agent.deliver(&unknown, &bytes);
            }
            match answer {
                Ok(_) => {}
                Err(Trouble::Refused(reason)) => self.keep_refused(&bytes, &reason)?,
                Err(trouble) => return Err(trouble),
            }
            self.contents().waiting.pop_front();
        }
        let mut contents = self.contents();
        // A journal can only be emptied as a whole, so this waits until all results are sent. A result that
        // is sent twice is stored once.
        if contents.waiting.is_empty() {
            contents.journal.clear()?;
        }
        Ok(())
    }

    /// Sends what is added, whenever there is news, until the sender of news is dropped. While the server is away,
    /// results stay in the outbox.
    pub(super) fn send_all(&self, news: &Receiver<()>, agent: &Registered<'_>) -> anyhow::Result<()> {
        while news.recv().is_ok() {
            // One attempt to send is enough for all that was added meanwhile.
            while news.try_recv().is_ok() {}
            match self.send(agent) {
                // If the server is away, the result is sent with the next one.
                Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown(_) | Trouble::Ended(_)) => {}
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(())
    }

    /// Keeps a result that the server refuses, so that nothing that was measured is lost.
    fn keep_refused(&self, bytes: &[u8], reason: &anyhow::Error) -> anyhow::Result<()> {
        fs::create_dir_all(&self.refused)
            .with_context(|| format!("cannot make {}", self.refused.display()))?;
        let path = self.refused.join(format!("{:.16}.msgpack.zst", Digest::of(bytes)));
        diode_formats::write_atomically(&path, bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        tell!(Warning, {}, "{reason:#}; {} keeps the result", path.display());
        Ok(())
    }
}

/// A sample holds this many of the configs that the model predicts to be the fastest.
const EXPECTED: usize = 200;
/// A sample holds this many further configs, drawn from the full space. It also holds the default configs.
const DRAWN: usize = 100;

/// Chooses the configs to time on a problem, apart from the library kernel. Every node with the same version
/// of this program takes the same sample of a problem. So a confirmation times what the first contributor
/// timed.
pub(super) struct ConfigChooser {
    hardware: Hardware,
    /// The model that comes with this program, for a GPU with known facts.
    model: Option<Ranker<Box<Model>>>,
}

impl ConfigChooser {
    pub(super) fn new(hardware: Hardware) -> Self {
        let is_gpu = hardware.vendor != Vendor::Cpu;
        let model = is_gpu.then(|| shipped_for(&hardware).ok()).flatten();
        Self { hardware, model: model.map(|model| Ranker::new(Box::new(model))) }
    }

    pub(super) fn choose(&mut self, work: &LeasedProblem) -> Result<Vec<Config>, Invalid> {
        let space = |name| Space::Named(name).configs(&self.hardware, &work.problem);
        let full = space(SpaceName::Full)?;
        if work.breadth == Breadth::Full {
            return Ok(full);
        }
        let mut configs = match work.problem.op.is_plain() {
            true => space(SpaceName::Default)?,
            // Every space is the full one here.
            false => self.baselines(&work.problem),
        };
        // Some tiles of the default list, made for small problems, are in no pack.
        let in_packs: HashSet<&Config> = full.iter().collect();
        configs.retain(|config| in_packs.contains(config));
        let mut known: HashSet<Config> = configs.iter().copied().collect();
        // If the model cannot rank the problem, the sample is the default configs and the drawn ones.
        let ranked = self
            .model
            .as_mut()
            .and_then(|model| model.rank(&work.problem, &Space::Named(SpaceName::Full)).ok());
        let best = ranked.iter().flat_map(|ranked| &ranked.configs).take(EXPECTED).map(|(config, _)| *config);
        configs.extend(best.filter(|config| known.insert(*config)));
        let id = work.problem.id();
        // The order must be the same in every build of this program. A digest is; a hash of std may differ.
        let place = |config: &Config| Digest::of(format!("{id} {}", config.canonical()).as_bytes());
        let mut others: Vec<Config> = full.into_iter().filter(|config| !known.contains(config)).collect();
        others.sort_by_cached_key(place);
        configs.extend(others.into_iter().take(DRAWN));
        Ok(configs)
    }

    /// What vLLM and SGLang run if nobody has tuned anything.
    fn baselines(&self, problem: &Problem) -> Vec<Config> {
        let mut configs: Vec<Config> =
            Baseline::ALL.iter().filter_map(|baseline| baseline.config(&self.hardware, problem)).collect();
        configs.dedup();
        configs
    }
}

#[cfg(test)]
mod tests;
