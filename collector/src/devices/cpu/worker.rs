//! The measuring process itself. It answers its parent until the parent closes the pipe.

use std::io::{BufRead, Write};
use std::time::Instant;

use diode_core::{Config, FailureReason, Problem};

use crate::devices::cpu::matmul::{Inputs, Output, Workspace, launch, verify};
use crate::devices::cpu::process::{Reply, Request};

/// Answers requests, one line each, until the end of the input.
pub(crate) fn serve(requests: impl BufRead, mut replies: impl Write) -> anyhow::Result<()> {
    let mut timer = Timer::new();
    for line in requests.lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(Request::Load { problem, seed }) => timer.load(problem, seed),
            Ok(Request::Time { config, repeats, check, give_up_ns }) => {
                timer.time(&config, repeats, check, give_up_ns)
            }
            Err(error) => Reply::Confused { message: format!("unreadable request: {error}") },
        };
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use diode_core::{Config, DType, FailureReason, Op, Problem, ProblemFields, Tile};

    use super::*;

    fn converse(requests: &[Request]) -> Vec<Reply> {
        let lines: String = requests.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
        let mut replies = Vec::new();
        serve(lines.as_bytes(), &mut replies).unwrap();
        replies
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    #[test]
    fn one_reply_to_each_request() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 48, 32, 16, DType::Float16)).unwrap();
        let time = |config, give_up_ns| Request::Time { config, repeats: 3, check: true, give_up_ns };
        let tile = Config::Mm(Tile::new(16, 16, 16, 1, 1));
        let replies = converse(&[
            time(tile, None),
            Request::Load { problem, seed: 1 },
            time(tile, None),
            time(tile, Some(0)),
            time(Config::Library, None),
        ]);
        assert!(matches!(&replies[0], Reply::Confused { message } if message.contains("loaded")));
        assert_eq!(replies[1], Reply::Loaded);
        assert!(matches!(&replies[2], Reply::Timed { nanos } if nanos.len() == 3), "{replies:?}");
        assert!(matches!(&replies[3], Reply::Timed { nanos } if nanos.len() == 1), "{replies:?}");
        assert_eq!(replies[4], Reply::Failed { reason: FailureReason::Compile });
    }
}
