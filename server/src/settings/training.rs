//! When the server asks for trainings by itself.

use anyhow::bail;
use clap::Args;
use serde::Deserialize;

use super::on_or_off;
use crate::store::Due;

/// How many problems must be new: enough for a useful model of a new GPU.
const NEW_PROBLEMS: u64 = 50;
/// The share of new problems that is needed: less than a tenth of new data changes a model little.
const NEW_SHARE: f64 = 0.1;
const PAUSE_MINUTES: u64 = 60;
/// A year, in minutes.
const MAX_PAUSE_MINUTES: u64 = 366 * 24 * 60;

/// The settings of trainings, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct TrainingArgs {
    /// Train by itself when enough has been measured [default: on]
    #[arg(long, env = "DIODE_AUTO_TRAIN", value_name = "on|off", value_parser = on_or_off)]
    pub auto_train: Option<bool>,

    /// Problems that must be new for it [default: 50]
    #[arg(long, env = "DIODE_AUTO_TRAIN_PROBLEMS", value_name = "NUMBER")]
    pub auto_train_problems: Option<u64>,

    /// How many must be new for each that was there before [default: 0.1]
    #[arg(long, env = "DIODE_AUTO_TRAIN_SHARE", value_name = "SHARE")]
    pub auto_train_share: Option<f64>,

    /// Minutes since a training was last asked for [default: 60]
    #[arg(long, env = "DIODE_AUTO_TRAIN_PAUSE", value_name = "MINUTES")]
    pub auto_train_pause: Option<u64>,
}

/// The settings of trainings in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainingFile {
    automatic: Option<bool>,
    new_problems: Option<u64>,
    new_share: Option<f64>,
    pause_minutes: Option<u64>,
}

/// The settings of trainings in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training {
    pub automatic: bool,
    pub due: Due,
}

impl Training {
    /// Combines flags and file.
    pub(super) fn resolve(args: TrainingArgs, file: TrainingFile) -> anyhow::Result<Self> {
        let share = args.auto_train_share.or(file.new_share).unwrap_or(NEW_SHARE);
        if !(share.is_finite() && share >= 0.0) {
            bail!("auto_train_share: got {share}, expected a number from 0 on, such as {NEW_SHARE}");
        }
        let minutes = args.auto_train_pause.or(file.pause_minutes).unwrap_or(PAUSE_MINUTES);
        if minutes > MAX_PAUSE_MINUTES {
            bail!("auto_train_pause: got {minutes}, expected at most {MAX_PAUSE_MINUTES} minutes");
        }
        Ok(Self {
            automatic: args.auto_train.or(file.automatic).unwrap_or(true),
            due: Due {
                problems: args.auto_train_problems.or(file.new_problems).unwrap_or(NEW_PROBLEMS),
                share,
                pause: (minutes * 60_000).cast_signed(),
            },
        })
    }
}

impl Default for Training {
    fn default() -> Self {
        let due =
            Due { problems: NEW_PROBLEMS, share: NEW_SHARE, pause: (PAUSE_MINUTES * 60_000).cast_signed() };
        Self { automatic: true, due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_nonsense_is_refused() {
        let file =
            || TrainingFile { automatic: Some(false), new_problems: Some(7), ..TrainingFile::default() };
        let resolved = Training::resolve(TrainingArgs::default(), file()).unwrap();
        assert_eq!((resolved.automatic, resolved.due.problems, resolved.due.share), (false, 7, NEW_SHARE));
        let flags =
            TrainingArgs { auto_train: Some(true), auto_train_pause: Some(2), ..TrainingArgs::default() };
        let resolved = Training::resolve(flags, file()).unwrap();
        assert_eq!((resolved.automatic, resolved.due.pause), (true, 120_000));
        assert_eq!(
            Training::resolve(TrainingArgs::default(), TrainingFile::default()).unwrap(),
            Training::default()
        );
        let share = TrainingArgs { auto_train_share: Some(f64::NAN), ..TrainingArgs::default() };
        assert!(Training::resolve(share, TrainingFile::default()).is_err());
        let pause = TrainingArgs { auto_train_pause: Some(u64::MAX), ..TrainingArgs::default() };
        assert!(Training::resolve(pause, TrainingFile::default()).is_err());
        assert_eq!((on_or_off("on"), on_or_off("off")), (Ok(true), Ok(false)));
        assert!(on_or_off("yes").unwrap_err().contains("expected on or off"));
    }
}
