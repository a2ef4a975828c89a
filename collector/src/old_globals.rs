//! torch-diode's toolkit took `--seed`, `--format` and `--device` before the name
//! of the command. Here they belong to the commands that they mean something to.

use std::ffi::OsString;

/// The flags, and why a command may not have one.
const OLD_GLOBALS: [(&str, &str); 3] = [
    ("--seed", "nothing in it is drawn at random"),
    ("--format", "names of files choose formats"),
    ("--device", "it runs on the CPU"),
];

/// Moves leading old flags behind the command. Where `has_flag` says that the
/// command does not know one, it is dropped, and a note returned.
pub(crate) fn moved(
    arguments: Vec<OsString>,
    has_flag: impl Fn(&str, &str) -> bool,
) -> (Vec<OsString>, Vec<String>) {
    let given = arguments.clone();
    let mut arguments = arguments.into_iter().peekable();
    let mut ordered: Vec<OsString> = arguments.next().into_iter().collect();
    let mut leading: Vec<(&str, &str, Vec<OsString>)> = Vec::new();
    while let Some((flag, reason)) = arguments.peek().and_then(|argument| old_global(argument)) {
        let has_value = arguments.peek().is_some_and(|argument| argument.to_string_lossy().contains('='));
        let values = if has_value { 1 } else { 2 };
        leading.push((flag, reason, arguments.by_ref().take(values).collect()));
    }
    let Some(command) = arguments.next() else { return (given, Vec::new()) };
    let name = command.to_string_lossy().into_owned();
    ordered.push(command);
    let mut notes = Vec::new();
    for (flag, reason, values) in leading {
        if has_flag(&name, &flag[2..]) {
            ordered.extend(values);
        } else {
            notes.push(format!("{flag} changes nothing for `{name}`: {reason}"));
        }
    }
    ordered.extend(arguments);
    (ordered, notes)
}

fn old_global(argument: &OsString) -> Option<(&'static str, &'static str)> {
    let argument = argument.to_string_lossy();
    let flag = argument.split('=').next().unwrap_or_default();
    OLD_GLOBALS.into_iter().find(|(old, _)| *old == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved_words(line: &str) -> (String, Vec<String>) {
        let arguments = line.split(' ').map(OsString::from).collect();
        let (moved, notes) = moved(arguments, |command, flag| command == "collect" && flag == "seed");
        let words: Vec<String> = moved.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        (words.join(" "), notes)
    }

    #[test]
    fn leading_flags_go_behind_the_command_or_away() {
        assert_eq!(
            moved_words("diode --seed 7 collect --x 1"),
            ("diode collect --seed 7 --x 1".into(), vec![])
        );
        assert_eq!(moved_words("diode --seed=7 collect").0, "diode collect --seed=7");
        let (words, notes) = moved_words("diode --format json --seed 7 collect");
        assert_eq!(words, "diode collect --seed 7");
        assert_eq!(notes, ["--format changes nothing for `collect`: names of files choose formats"]);
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let lines =
            ["diode", "diode --help", "diode collect --seed 7", "diode --version --seed 7", "diode --seed"];
        for line in lines {
            assert_eq!(moved_words(line), (line.into(), vec![]));
        }
    }
}
