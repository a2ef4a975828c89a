//! The measuring process itself. It answers its parent until the parent closes the pipe.

use std::io::{BufRead, Write};

use super::protocol::{Reply, Request};
use super::timing::Timer;

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
