//! Runs many compilers side by side. Each takes the next kernel when it is free.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::bail;

use super::compiler::{Compiled, Compiler};
use super::parts::Parts;
use super::plan::PlannedKernel;
use super::python::{Python, TRITON};
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// A kernel is given up after this many compilers died while they compiled it.
const TRIES: usize = 2;

/// The outcome of one kernel.
struct Finished {
    key: String,
    compiled: Compiled,
}

/// The state that all compilers share.
pub(super) struct Compilers<'a> {
    parts: &'a Parts,
    python: &'a Python,
    interrupt: &'a Interrupt,
    queue: Mutex<VecDeque<&'a PlannedKernel>>,
    /// Whether a compiler failed for a reason other than its kernel. Then the others need not go on.
    failed: AtomicBool,
}

impl<'a> Compilers<'a> {
    pub(super) fn new(
        parts: &'a Parts,
        python: &'a Python,
        interrupt: &'a Interrupt,
        todo: VecDeque<&'a PlannedKernel>,
    ) -> Self {
        Self { parts, python, interrupt, queue: Mutex::new(todo), failed: AtomicBool::new(false) }
    }

    /// Compiles all kernels with this many processes. Compiled kernels are kept and added to `finished`.
    pub(super) fn run(
        &self,
        processes: usize,
        finished: &mut HashMap<String, Compiled>,
    ) -> anyhow::Result<()> {
        let todo = self.queue.lock().unwrap_or_else(PoisonError::into_inner).len();
        let (already, total) = (finished.len(), finished.len() + todo);
        let (sender, results) = channel();
        let mut progress = Progress::new(total as u64, "kernels");
        thread::scope(|scope| {
            for number in 0..processes.min(todo) {
                let sender = sender.clone();
                scope.spawn(move || self.work(number, &sender));
            }
            drop(sender);
            progress.set(already as u64, "starting compilers");
            let mut trouble = None;
            for result in results {
                match result.and_then(|done| self.parts.keep(&done.key, &done.compiled).map(|()| done)) {
                    Ok(done) => {
                        finished.insert(done.key.clone(), done.compiled);
                        progress.set(finished.len() as u64, &done.key);
                    }
                    Err(error) => {
                        self.failed.store(true, Ordering::Relaxed);
                        trouble.get_or_insert(error);
                    }
                }
            }
            progress.finish();
            trouble.map_or(Ok(()), Err)
        })
    }

    /// Runs one compiler until no kernel is left. If the compiler dies, another one replaces it.
    fn work(&self, number: usize, results: &Sender<anyhow::Result<Finished>>) {
        let cache = self.parts.folder.join(format!("cache-{number}"));
        let mut compiler = None;
        while !(self.interrupt.requested() || self.failed.load(Ordering::Relaxed)) {
            let Some(kernel) = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else {
                break;
            };
            let compiled = self.compile(kernel, &cache, &mut compiler);
            let trouble = compiled.is_err();
            // Sending fails if the main thread has given up.
            let sent = results.send(compiled.map(|compiled| Finished { key: kernel.key.clone(), compiled }));
            if trouble || sent.is_err() {
                return;
            }
            // Triton's own cache would only fill the disk, because every kernel is compiled once.
            let _ = fs::remove_dir_all(&cache);
        }
    }

    /// Compiles one kernel. If the compiler dies, a new one tries again, because the kernel may not be
    /// the cause.
    fn compile(
        &self,
        kernel: &PlannedKernel,
        cache: &Path,
        compiler: &mut Option<Compiler>,
    ) -> anyhow::Result<Compiled> {
        for _ in 0..TRIES {
            let running = match compiler {
                Some(running) => running,
                None => compiler.insert(self.start(cache)?),
            };
            if let Some(compiled) =
                running.compile(kernel.request.clone(), &self.parts.binary(&kernel.key))?
            {
                return Ok(compiled);
            }
            *compiler = None;
        }
        Ok(Compiled::GivenUp)
    }

    fn start(&self, cache: &Path) -> anyhow::Result<Compiler> {
        let compiler = Compiler::start(self.python, cache, self.interrupt.clone())?;
        if compiler.triton != TRITON {
            let (program, given) = (self.python.program.display(), &compiler.triton);
            bail!(
                "{program}: got triton {given}, expected {TRITON}; kernels of another version do not compare"
            );
        }
        Ok(compiler)
    }
}
