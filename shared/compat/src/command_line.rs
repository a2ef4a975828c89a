//! torch-diode's command lines, as `diode` still takes them.

use std::ffi::OsString;

/// Checks a value of `--search-mode`, which torch-diode passed to `torch.compile`. Diode times kernels itself, so only
/// modes that time every config are accepted.
pub fn parse_search_mode(text: &str) -> Result<(), String> {
    if text.starts_with("max-autotune") {
        return Ok(());
    }
    Err("expected max-autotune: every config of the space is timed, without torch.compile; \
         choose fewer configs with --search-space DEFAULT"
        .to_owned())
}

struct LeadingFlag {
    old: &'static str,
    /// The flag's name after the command.
    new: &'static str,
    /// Why some commands do not have the flag.
    without: &'static str,
}

const DEVICE: LeadingFlag = LeadingFlag { old: "--device", new: "--backend", without: "it runs on the CPU" };

const LEADING_FLAGS: [LeadingFlag; 3] = [
    LeadingFlag { old: "--seed", new: "--seed", without: "nothing in it is drawn at random" },
    LeadingFlag { old: "--format", new: "--format", without: "names of files choose formats" },
    DEVICE,
];

/// Moves flags that torch-diode accepted before the name of the command, `--seed`, `--format` and `--device`, behind
/// it. After a command, `--device` chooses GPUs by number; where its value is a kind of device instead, it is read as
/// torch-diode's flag.
///
/// `has_flag` says which flags a command
/// has. A flag that it lacks is dropped, and a note about it is returned.
pub fn after_the_command(
    arguments: Vec<OsString>,
    has_flag: impl Fn(&str, &str) -> bool,
) -> (Vec<OsString>, Vec<String>) {
    let given = arguments.clone();
    let mut arguments = arguments.into_iter().peekable();
    let mut ordered: Vec<OsString> = arguments.next().into_iter().collect();
    let mut leading: Vec<(&LeadingFlag, Vec<OsString>)> = Vec::new();
    while let Some((global, value)) = arguments.peek().and_then(|argument| leading_flag(argument)) {
        arguments.next();
        let value = value.or_else(|| arguments.next());
        leading.push((global, [Some(global.new.into()), value].into_iter().flatten().collect()));
    }
    let Some(command) = arguments.next() else { return (given, Vec::new()) };
    let name = command.to_string_lossy().into_owned();
    ordered.push(command);
    let mut rest = Vec::new();
    while let Some(argument) = arguments.next() {
        let next = arguments.peek().cloned();
        match old_device(&argument, next.as_ref()) {
            Some((value, words)) => {
                (1..words).for_each(|_| drop(arguments.next()));
                leading.push((&DEVICE, vec![DEVICE.new.into(), value]));
            }
            None => rest.push(argument),
        }
    }
    let mut notes = Vec::new();
    for (LeadingFlag { old, new, without }, flag_and_value) in leading {
        if has_flag(&name, new.trim_start_matches('-')) {
            ordered.extend(flag_and_value);
        } else {
            notes.push(format!("{old} changes nothing for `{name}`: {without}"));
        }
    }
    ordered.extend(rest);
    (ordered, notes)
}

/// The values of torch-diode's `--device`.
const DEVICES: [&str; 2] = ["cpu", "cuda"];

/// The kind of device that torch-diode's flag names, and how many words the flag takes.
fn old_device(argument: &OsString, next: Option<&OsString>) -> Option<(OsString, usize)> {
    let (_, value) = leading_flag(argument).filter(|(global, _)| global.old == DEVICE.old)?;
    let words = if value.is_some() { 1 } else { 2 };
    let value = value.or_else(|| next.cloned())?;
    DEVICES.iter().any(|device| value == *device).then_some((value, words))
}

/// The leading flag that an argument is, with its value if that follows an equals sign.
fn leading_flag(argument: &OsString) -> Option<(&'static LeadingFlag, Option<OsString>)> {
    let argument = argument.to_string_lossy();
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value.into())),
        None => (&*argument, None),
    };
    LEADING_FLAGS.iter().find(|global| global.old == flag).map(|global| (global, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved_words(line: &str) -> (String, Vec<String>) {
        let arguments = line.split(' ').map(OsString::from).collect();
        let (moved, notes) =
            after_the_command(arguments, |command, flag| command == "collect" && flag != "format");
        let words: Vec<String> = moved.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        (words.join(" "), notes)
    }

    #[test]
    fn leading_flags_go_behind_the_command_or_away() {
        assert_eq!(
            moved_words("diode --seed 7 collect --x 1"),
            ("diode collect --seed 7 --x 1".into(), vec![])
        );
        assert_eq!(moved_words("diode --seed=7 collect").0, "diode collect --seed 7");
        assert_eq!(moved_words("diode --device cpu collect").0, "diode collect --backend cpu");
        assert_eq!(moved_words("diode collect --device cpu --x 1").0, "diode collect --backend cpu --x 1");
        assert_eq!(moved_words("diode collect --device=cuda").0, "diode collect --backend cuda");
        let (words, notes) = moved_words("diode train --device cpu --data d");
        assert_eq!(words, "diode train --data d");
        assert_eq!(notes, ["--device changes nothing for `train`: it runs on the CPU"]);
        let (words, notes) = moved_words("diode --format json --seed 7 collect");
        assert_eq!(words, "diode collect --seed 7");
        assert_eq!(notes, ["--format changes nothing for `collect`: names of files choose formats"]);
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let lines = [
            "diode",
            "diode collect --device 0,1",
            "diode collect --device",
            "diode --help",
            "diode collect --seed 7",
            "diode --version --seed 7",
            "diode --seed",
        ];
        for line in lines {
            assert_eq!(moved_words(line), (line.into(), vec![]));
        }
    }

    #[test]
    fn only_modes_that_time_everything_are_accepted() {
        assert_eq!(parse_search_mode("max-autotune"), Ok(()));
        assert_eq!(parse_search_mode("max-autotune-no-cudagraphs"), Ok(()));
        assert!(parse_search_mode("reduce-overhead").unwrap_err().contains("--search-space DEFAULT"));
    }
}
