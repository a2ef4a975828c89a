use crate::arm::Arm;
use crate::training::Trained;

/// Prints the quality that each arm reaches. Compares the plan with the other arms after twice the time.
pub(crate) fn print(arms: &[Arm], hours: &[f64], results: &[Trained]) {
    for (set, name) in ["layers of transformers", "anywhere"].into_iter().enumerate() {
        println!("\n{name}: first picks' share of the best in percent, mean ± standard error over seeds");
        print!("{:>19}", "hours");
        hours.iter().for_each(|hours| print!(" {hours:>14}"));
        println!();
        for &arm in arms {
            print!("{arm:>19}");
            for &hours in hours {
                let of = results.iter().filter(|result| result.arm == arm && result.hours == hours);
                let percents: Vec<f64> = of.map(|result| result.qualities[set].percent).collect();
                print!(" {:>14}", text(&percents));
            }
            println!();
        }
        for &hours in hours {
            for &arm in arms.iter().filter(|arm| **arm != Arm::Plan) {
                let gains = gains(set, hours, arm, results);
                if !gains.is_empty() {
                    println!("plan after {hours} h − {arm} after {}: {}", 2.0 * hours, text(&gains));
                }
            }
        }
    }
}

/// For each seed: the quality of the plan after some hours, less the quality of another arm after twice the
/// hours.
fn gains(set: usize, hours: f64, other: Arm, results: &[Trained]) -> Vec<f64> {
    let of = |arm: Arm, hours: f64| results.iter().filter(move |r| r.arm == arm && r.hours == hours);
    let gain = |plan: &Trained| {
        let other = of(other, 2.0 * hours).find(|other| other.seed == plan.seed)?;
        Some(plan.qualities[set].percent - other.qualities[set].percent)
    };
    of(Arm::Plan, hours).filter_map(gain).collect()
}

fn text(values: &[f64]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let (mean, error) = mean_and_error(values);
    format!("{mean:.2} ± {error:.2}")
}

/// The mean and its standard error. The error of a single value is not a number.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
