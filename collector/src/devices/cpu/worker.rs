//! The measuring process itself: takes times for its parent until that closes the pipe.

use std::io::{BufRead, Write};
use std::time::Instant;

use diode_core::{Config, FailureReason, Problem};

use super::matmul::{Inputs, Output, Workspace, launch, verify};
use super::protocol::{Reply, Request};

/// Answers requests, one line each, until end of input.
pub(crate) fn serve(requests: impl BufRead, mut replies: impl Write) -> anyhow::Result<()> {
    let mut worker = Worker { workspace: Workspace::new(), loaded: None };
    for line in requests.lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(Request::Load { problem, seed }) => worker.load(problem, seed),
            Ok(Request::Time { config, repeats, check, give_up_ns }) => {
                worker.time(&config, repeats, check, give_up_ns)
            }
            Err(error) => Reply::Confused { message: format!("unreadable request: {error}") },
        };
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}

struct Worker {
    workspace: Workspace,
    loaded: Option<Loaded>,
}

struct Loaded {
    inputs: Inputs,
    output: Output,
    seed: u64,
}

impl Worker {
    fn load(&mut self, problem: Problem, seed: u64) -> Reply {
        // Freed first: two large problems need not fit side by side.
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

    fn time(&mut self, config: &Config, repeats: u32, check: bool, give_up_ns: Option<u64>) -> Reply {
        let Some(Loaded { inputs, output, seed }) = &self.loaded else {
            return Reply::Confused { message: "asked to time before a problem was loaded".to_owned() };
        };
        // The library kernel, split-K and the TMA template are GPU code.
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
            // Zero is no time; a clock that coarse is rounded up to its step.
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
    use diode_core::{DType, Op, ProblemFields, Tile};

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
