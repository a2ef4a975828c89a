//! A problem whose inputs and reference are on the GPU already.

use std::collections::BTreeSet;

use diode_core::Config;

use crate::devices::gpu::driver::Memory;
use crate::devices::gpu::operands::{Arguments, Operands, TURNS, programs};
use crate::devices::gpu::process::Measure;
use crate::devices::gpu::session::{KernelSlot, Launchable, LaunchableConfig, Session, SessionError};
use crate::kernels::support::{Support, tolerance};
use crate::kernels::variant::Variant;

/// The result of cuBLAS may be this many times as far from the reference as that of a pack's kernel.
const LIBRARY_LATITUDE: f32 = 16.0;
/// How long the host may take to queue one call of cuBLAS.
const LIBRARY_CALL_NS: u64 = 10_000;

/// The problem in hand, and the session that launches its configs.
pub(super) struct PreparedProblem<'s> {
    pub(super) session: &'s mut Session,
    operands: Operands,
    /// One counter of wrong elements for each config of the request.
    wrong: Memory,
    compare: KernelSlot,
}

impl<'s> PreparedProblem<'s> {
    /// Makes the inputs and the reference on the GPU.
    pub(super) fn new(
        session: &'s mut Session,
        variant: &Variant,
        request: &Measure,
    ) -> Result<Self, SessionError> {
        let heights: BTreeSet<u32> =
            request.configs.iter().filter_map(Config::tile).map(|tile| tile.block_m).collect();
        let heights: Vec<u32> = heights.into_iter().collect();
        let operands = Operands::allocate(&session.gpu, &request.problem, &heights, session.sms)?;
        let wrong = session.gpu.allocate(4 * request.configs.len() as u64)?;
        session.gpu.fill(&wrong, 0)?;
        let [fill, first, second, compare] = Support::all(variant);
        let fill = session.support(fill)?;
        if session.pair_ns == 0 {
            session.queue.warm_up(&session.gpu)?;
            session.pair_ns = session.cost_of_a_pair(fill, &wrong)?;
        }
        session.queue.begin(&session.gpu)?;
        for (pointer, count, stream) in operands.inputs() {
            let mut arguments = Arguments::default()
                .pointer(pointer)
                .i64(count)
                .i32(request.seed.wrapping_add(stream))
                .finish();
            session.launch(fill, [programs(count), 1], &mut arguments)?;
        }
        for (pointer, [rows, columns], turned, stream) in operands.scales() {
            let fill = session.support(Support::FillScales)?;
            let [rows, columns] = if turned { [rows, columns] } else { [rows * columns, 1] };
            let mut arguments = Arguments::default()
                .pointer(pointer)
                .i64(rows * columns)
                .i32(request.seed.wrapping_add(stream))
                .i64(rows)
                .i64(columns)
                .finish();
            session.launch(fill, [programs(rows * columns), 1], &mut arguments)?;
        }
        let has_second = !variant.kernel.is_plain() || request.problem.op.has_bias();
        let reference = session.support(if has_second { second } else { first })?;
        let (grid, mut arguments) = operands.reference();
        session.launch(reference, grid, &mut arguments)?;
        let compare = session.support(compare)?;
        session.queue.wait(&session.gpu)?;
        Ok(Self { session, operands, wrong, compare })
    }

    /// Whether there are enough copies of the inputs to take turns. Then the inputs of a launch are not in
    /// the cache, even right after another launch.
    pub(super) fn takes_turns(&self) -> bool {
        self.operands.takes_turns()
    }

    /// Whether the result of a kernel was compared before, on any problem. The result of cuBLAS is compared
    /// on every problem.
    pub(super) fn is_verified(&self, launchable: Launchable) -> bool {
        match launchable {
            Launchable::Kernel(place, _) => self.session.store.is_verified(place),
            Launchable::Library { .. } => false,
        }
    }

    /// An untimed launch. It brings back the kernel's code, which other kernels have pushed out of the cache.
    pub(super) fn bring_code(&mut self, launchable: Launchable, turn: u64) -> Result<(), SessionError> {
        self.session.queue.begin(&self.session.gpu)?;
        self.run(launchable, turn)
    }

    /// Launches a config on one copy of the inputs. The place of a copy in memory changes times by a few
    /// percent, so every config gets the same copies in the same order.
    fn run(&self, launchable: Launchable, turn: u64) -> Result<(), SessionError> {
        match launchable {
            Launchable::Kernel(place, form) => {
                let (grid, mut arguments) = self.operands.launch(&form, turn);
                self.session.launch(place, grid, &mut arguments)
            }
            Launchable::Library { rounds } => {
                let Some(library) = &self.session.library else { return Ok(()) };
                let (problem, matrices) = (self.operands.problem(), self.operands.matrices(turn));
                Ok(library.multiply(&self.session.gpu, problem, rounds, &matrices)?)
            }
        }
    }

    /// Times one launch between two events, with a cold cache. The next [`Self::collect`] returns its time.
    pub(super) fn time(&mut self, launchable: Launchable, turn: u64) -> Result<(), SessionError> {
        loop {
            self.session.queue.start(&self.session.gpu)?;
            self.run(launchable, turn)?;
            if self.session.queue.stop(&self.session.gpu)? {
                return Ok(());
            }
        }
    }

    /// Times a group of launches, one on each copy of the inputs, between two events.
    pub(super) fn time_group(&mut self, launchable: Launchable) -> Result<(), SessionError> {
        loop {
            if launchable.is_library() {
                self.session.queue.delay(&self.session.gpu, TURNS * LIBRARY_CALL_NS)?;
            }
            self.session.queue.start(&self.session.gpu)?;
            for turn in 0..TURNS {
                self.run(launchable, turn)?;
            }
            if self.session.queue.stop(&self.session.gpu)? {
                return Ok(());
            }
        }
    }

    /// Waits for all launches. Returns their times in nanoseconds, in the order in which they were started.
    pub(super) fn collect(&mut self) -> Result<Vec<u64>, SessionError> {
        Ok(self.session.queue.collect(&self.session.gpu)?)
    }

    /// The time of one launch in a group. The cost of a pair of events is added, so that short and long
    /// problems are on one scale.
    pub(super) fn per_launch(&self, group_ns: u64) -> u64 {
        group_ns / TURNS + self.session.pair_ns
    }

    /// Launches a config on a poisoned output and counts the wrong elements afterwards.
    pub(super) fn queue_check(&mut self, candidate: LaunchableConfig) -> Result<(), SessionError> {
        let LaunchableConfig { number, launchable } = candidate;
        self.session.queue.begin(&self.session.gpu)?;
        self.session.gpu.fill(self.operands.output(), 0xff)?;
        self.run(launchable, 0)?;
        let problem = self.operands.problem();
        let tf32 = match launchable {
            Launchable::Kernel(_, form) => form.tile.allow_tf32,
            Launchable::Library { rounds } => rounds,
        };
        let (mut absolute, relative) = tolerance(problem.a_dtype, problem.k, tf32);
        if launchable.is_library() {
            // cuBLAS may split K and add the parts in the output's type, as torch allows it to.
            absolute *= LIBRARY_LATITUDE;
        }
        let counter = self.wrong.slice(4 * number as u64, 4);
        let (grid, mut arguments) = self.operands.comparison(counter, absolute, relative);
        self.session.launch(self.compare, grid, &mut arguments)
    }

    /// Waits for all checks. Returns how many elements each config of the request got wrong.
    pub(super) fn wrong_elements(&mut self) -> Result<Vec<u32>, SessionError> {
        self.session.queue.wait(&self.session.gpu)?;
        Ok(self.session.gpu.read(&self.wrong)?)
    }

    /// Sets the counters of wrong elements to zero.
    pub(super) fn forget_wrong_elements(&self) -> Result<(), SessionError> {
        Ok(self.session.gpu.fill(&self.wrong, 0)?)
    }
}
