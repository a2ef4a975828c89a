//! Agents that send results that cannot be true.

use diode_api::{Moderation, ModerationAction, ModerationSubject, Reason};
use diode_core::ids::AgentId;

use crate::backend::Backend;
use crate::store::{Now, StoreResult};

/// The name under which the log keeps these actions.
const WHO: &str = "server";

/// Stores that a result of an agent was refused. If the agent is then put aside, its earlier results stop counting too:
/// they may be just as wrong without showing it. An administrator may restore them.
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
