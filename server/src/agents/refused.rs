//! Agents that send what cannot be true.

use diode_core::api::{Moderation, ModerationAction, ModerationSubject, Reason};
use diode_core::ids::AgentId;

use crate::backend::Backend;
use crate::store::{Now, StoreResult};

/// Who the log says it was.
const WHO: &str = "server";

/// Notes that a result of an agent was refused. Once it is put aside, what it had sent before does not count either: it
/// may be as wrong, and not show it. An administrator may restore it.
pub(crate) async fn note_refused_result(backend: &Backend, agent: &AgentId, reason: &str) -> StoreResult<()> {
    if !backend.store.note_refused_result(agent, reason).await? {
        return Ok(());
    }
    let Ok(reason) =
        "the agent that sent it was put aside since later results of it were refused".parse::<Reason>()
    else {
        return Ok(());
    };
    let subject = ModerationSubject::Agent(agent.clone());
    let moderation = Moderation { action: ModerationAction::Quarantine, subject, reason };
    backend.store.moderate(&moderation, WHO, Now::read()).await?;
    Ok(())
}
