//! Takes times on the CPU: it reads the clock before and after a launch.

use std::time::Instant;

use diode_core::{Config, FailureReason, Problem};

use super::matmul::{Inputs, Output, Workspace, launch, verify};
use super::protocol::Reply;

/// Takes times on the problem that was loaded last.
pub(super) struct Timer {
    workspace: Workspace,
    loaded: Option<Loaded>,
}

struct Loaded {
    inputs: Inputs,
    output: Output,
    seed: u64,
}

impl Timer {
    pub(super) fn new() -> Self {
        Self { workspace: Workspace::new(), loaded: None }
    }

    pub(super) fn load(&mut self, problem: Problem, seed: u64) -> Reply {
        // The old problem is freed first: two large problems may not fit side by side.
        self.loaded = None;
        let elements = problem.b * problem.m * problem.n;
        let dtype = problem.out_dtype;
        let made = usize::try_from(elements)
            .ok()
            .and_then(|elements| Output::new(dtype, elements))
            .and_then(|output| Some(Loaded { inputs: Inputs::generate(problem, seed)?, output, seed }));
        match made {
            Some(loaded) => {
                self.loaded = Some(loaded);
                Reply::Loaded
            }
            None => Reply::Confused { message: "a problem the CPU backend does not support".to_owned() },
        }
    }

    pub(super) fn time(
        &mut self,
        config: &Config,
        repeats: u32,
        check: bool,
        give_up_ns: Option<u64>,
    ) -> Reply {
        let Some(Loaded { inputs, output, seed }) = &self.loaded else {
            return Reply::Confused { message: "asked to time before a problem was loaded".to_owned() };
        };
        // The library kernel, split-K and the TMA template exist only as GPU code.
        let (Config::Mm(tile) | Config::Bmm(tile)) = config else {
            return Reply::Failed { reason: FailureReason::Compile };
        };
        self.workspace.prepare(tile);
        if check {
            output.poison();
        }
        let workspace = &mut self.workspace;
        let mut run = || {
            let start = Instant::now();
            launch(inputs, tile, workspace, output);
            // A time of zero is not valid. If the clock is too coarse, the time is 1 ns.
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
        };
        let first = run();
        if check && !verify(inputs, output, *seed) {
            return Reply::Failed { reason: FailureReason::WrongResult };
        }
        if give_up_ns.is_some_and(|limit| first > limit) {
            return Reply::Timed { nanos: vec![first] };
        }
        Reply::Timed { nanos: (0..repeats).map(|_| run()).collect() }
    }
}
