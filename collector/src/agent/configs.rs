use std::collections::HashSet;

use diode_core::api::{Breadth, Work};
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Invalid};

/// Configs of the full space in a sample, besides the default ones among them.
const DRAWN: usize = 100;

/// The configs to time on a problem, but for the library kernel. The same problem has the same sample on every
/// node, so that a confirmation times what the first contributor timed.
pub(super) fn configs(hardware: &Hardware, work: &Work) -> Result<Vec<Config>, Invalid> {
    let space = |name| Space::Named(name).configs(hardware, &work.problem);
    if work.breadth == Breadth::Full {
        return space(SpaceName::Full);
    }
    let full = space(SpaceName::Full)?;
    let mut configs = space(SpaceName::Default)?;
    // For small problems the default list has tiles that no pack has.
    let in_packs: HashSet<&Config> = full.iter().collect();
    configs.retain(|config| in_packs.contains(config));
    let known: HashSet<Config> = configs.iter().copied().collect();
    let id = work.problem.id();
    // The same for every build of this program, unlike std's hashes.
    let place = |config: &Config| Digest::of(format!("{id} {}", config.canonical()).as_bytes());
    let mut others: Vec<Config> = full.into_iter().filter(|config| !known.contains(config)).collect();
    others.sort_by_cached_key(place);
    configs.extend(others.into_iter().take(DRAWN));
    Ok(configs)
}

#[cfg(test)]
mod tests {
    use diode_core::api::Purpose;
    use diode_core::hardware::find;
    use diode_core::{DType, Op, Problem, ProblemFields};

    use super::*;

    #[test]
    fn a_sample_holds_the_defaults_that_packs_have_and_is_the_same_everywhere() {
        let hardware = find("nvidia-h200").unwrap();
        let work = |m, breadth| Work {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, m, 512, 512, DType::BFloat16)).unwrap(),
            purpose: Purpose::Hole,
            why: String::new(),
            breadth,
            kept: false,
            seconds: 1.0,
        };
        let sample = configs(&hardware, &work(512, Breadth::Sample)).unwrap();
        let full = configs(&hardware, &work(512, Breadth::Full)).unwrap();
        let defaults = Space::Named(SpaceName::Default);
        let mut defaults = defaults.configs(&hardware, &work(512, Breadth::Sample).problem).unwrap();
        defaults.retain(|config| full.contains(config));
        assert!(defaults.len() > 10);
        assert_eq!(sample[..defaults.len()], defaults);
        assert_eq!(sample.len(), defaults.len() + DRAWN);
        let distinct: HashSet<&Config> = sample.iter().collect();
        assert_eq!(distinct.len(), sample.len());
        assert!(full.len() > 1000);
        assert_eq!(configs(&hardware, &work(512, Breadth::Sample)).unwrap(), sample);
        assert_ne!(configs(&hardware, &work(520, Breadth::Sample)).unwrap(), sample);
    }
}
