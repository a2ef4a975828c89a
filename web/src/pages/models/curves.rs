//! How the loss fell in the training: by the training's events if this server trained the model, else by the model's
//! file.

use diode_api::{Epoch, JobEvent};
use diode_core::ids::{JobId, ModelId};
use diode_model::Model;
use leptos::prelude::*;

use crate::api::Failure;
use crate::charts::{self, Curve};
use crate::components::{Loaded, empty, head, num, table};
use crate::format;
use crate::remote::{remote_file, remote_model};

/// The name of the phase in which the network of the model's file is trained.
const FINAL: &str = "final";

#[component]
pub(super) fn Curves(
    /// The model, if its file can state losses.
    file: Option<ModelId>,
    /// The training. `None` if another server or program trained the model.
    job: Option<JobId>,
) -> impl IntoView {
    let from_file = move || match file.clone() {
        Some(id) => view! { <LossesInFile id /> }.into_any(),
        None => nothing("The server no longer has the record of the training."),
    };
    let shown = match job {
        None => from_file(),
        Some(job) => {
            let events = remote_file(move || Some(format!("/jobs/{job}/events")), epochs);
            view! { <Loaded remote=events height="30rem" missing=from_file children=|epochs| of_events(&epochs) /> }
                .into_any()
        }
    };
    view! {
        <section class="card" data-testid="curves">
            <h2>"How it learnt"</h2>
            {shown}
        </section>
    }
}

#[component]
fn LossesInFile(id: ModelId) -> impl IntoView {
    let model = remote_model(move || Some(id.to_string()));
    view! { <Loaded remote=model height="30rem" children=|model| of_file(&model) /> }
}

fn of_file(model: &Model) -> AnyView {
    let losses = &model.metadata().training.losses;
    // The chart leaves out losses of 0, since its axes are logarithmic.
    if losses.iter().all(|loss| *loss <= 0.0) {
        return nothing("The model's file states no loss that could be drawn.");
    }
    let points = (1..).zip(losses.iter().copied()).collect();
    let epochs = format::counted(losses.len() as u64, "epoch");
    let curve = Curve { phase: FINAL.to_owned(), is_final: true, points };
    drawn(&[curve], format!("{epochs} of the network in the file, as the file states them."))
}

fn nothing(why: &'static str) -> AnyView {
    empty("No training curve", why)
}

/// Reads the epochs from the server-sent events of a job that has ended.
fn epochs(stream: &[u8]) -> Result<Vec<Epoch>, Failure> {
    let text = str::from_utf8(stream).map_err(|error| Failure::Unreadable(error.to_string()))?;
    let messages = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<JobEvent> = messages
        .map(|json| serde_json::from_str(json.trim()))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::Unreadable(error.to_string()))?;
    // Other messages say that the training began, ended or was tried again.
    Ok(events.iter().filter_map(|event| event.message.parse().ok()).collect())
}

/// The epochs of each network. The network of the model's file comes first.
fn curves(epochs: &[Epoch]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for Epoch { phase, epoch, loss, .. } in epochs {
        let place = curves.iter().position(|curve| curve.phase == *phase).unwrap_or_else(|| {
            curves.push(Curve { phase: phase.clone(), is_final: phase == FINAL, points: Vec::new() });
            curves.len() - 1
        });
        let points = &mut curves[place].points;
        // After an interruption, a training begins again. Later epochs replace the earlier ones.
        points.retain(|(known, _)| known < epoch);
        points.push((*epoch, *loss));
    }
    curves.sort_by(|a, b| (!a.is_final, &a.phase).cmp(&(!b.is_final, &b.phase)));
    curves
}

fn of_events(epochs: &[Epoch]) -> AnyView {
    let curves = curves(epochs);
    if curves.is_empty() {
        return nothing("The training was over before its progress was written down.");
    }
    let points: usize = curves.iter().map(|curve| curve.points.len()).sum();
    let all = epochs.first().map_or(0, |epoch| epoch.epochs);
    let hint = format!(
        "{} of {} networks with {} each: the server writes down the newest one about twice a second.",
        format::counted(points as u64, "epoch"),
        format::count(curves.len() as u64),
        format::counted(u64::from(all), "epoch")
    );
    drawn(&curves, hint)
}

fn drawn(curves: &[Curve], hint: String) -> AnyView {
    let rows = curves.iter().flat_map(|curve| {
        curve.points.iter().map(|(epoch, loss)| {
            view! {
                <tr>
                    <td>{curve.phase.clone()}</td>
                    <td class="num">{*epoch}</td>
                    <td class="num">{format::loss(*loss)}</td>
                </tr>
            }
        })
    });
    let rows = rows.collect_view();
    view! {
        <p class="hint">{hint}</p>
        {charts::training(curves)}
        {table([head("Network"), num("Epoch"), num("Loss")]).testid("losses").below_chart(rows)}
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64, text: &str) -> String {
        format!(
            "id: {seq}\ndata: {{\"seq\":{seq},\"state\":\"running\",\"progress\":0.5,\"message\":\"{text}\"}}\n\n"
        )
    }

    #[test]
    fn epochs_are_read_from_the_events() {
        let lines = ["started", "fold 1 of 4: epoch 1 of 9, loss 2.0000", "final: epoch 1 of 9, loss 3.0000"];
        let stream: String = (1..).zip(lines).map(|(seq, text)| message(seq, text)).collect();
        let read = epochs(format!("{stream}: keep-alive\n\n").as_bytes()).unwrap();
        let found = curves(&read);
        assert_eq!(
            found.iter().map(|curve| curve.phase.as_str()).collect::<Vec<_>>(),
            ["final", "fold 1 of 4"]
        );
        assert_eq!((found[0].is_final, &found[0].points), (true, &vec![(1, 3.0)]));
        assert!(epochs(b"data: {}\n\n").is_err());
    }

    #[test]
    fn a_training_that_began_again_counts_from_there() {
        let epoch = |epoch, loss| Epoch { phase: FINAL.to_owned(), epoch, epochs: 9, loss };
        let all = [epoch(1, 5.0), epoch(4, 2.0), epoch(2, 4.0), epoch(3, 3.0)];
        assert_eq!(curves(&all)[0].points, [(1, 5.0), (2, 4.0), (3, 3.0)]);
    }
}
