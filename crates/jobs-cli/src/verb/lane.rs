//! What `pause` and `resume` share.

use jobs_core::{
    Admin,
    admin::{LaneChange, LaneRef, Pause, Tuned},
    permit::Tune,
};

use super::Session;
use crate::{json, stop::Stop};

/// Changes the pause of the lane, or of the queue, that was typed.
pub(super) async fn tune<A: Admin>(
    session: &Session<A>,
    verb: &'static str,
    queue: &str,
    pause: Pause,
) -> Result<json::Tuned, Stop> {
    let permit = session.access.permit::<Tune>().await?;
    let lane = LaneRef { queue: queue.to_owned(), tenant: session.access.tenant.clone() };
    let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
    match session.store.set_lane(&permit, &lane, change).await? {
        Tuned::Tuned => Ok(json::Tuned {
            verb,
            queue: lane.queue,
            tenant: lane.tenant,
            for_seconds: match pause {
                Pause::For(length) => Some(length.as_secs_f64()),
                Pause::On | Pause::Off => None,
            },
            still_paused: Vec::new(),
        }),
        // A command line is checked when it is read, so this is the store's own view.
        no @ (Tuned::NotAllowed | Tuned::OutOfBounds) => {
            Err(Stop::refused(format!("the store does not {verb} {}: {no:?}", lane.queue)))
        }
    }
}

impl<A> Session<A> {
    /// `queue mail of tenant acme`
    pub(super) fn lane_words(&self, queue: &str) -> String {
        match &self.access.tenant {
            Some(tenant) => format!("queue {queue} of tenant {tenant}"),
            None => format!("queue {queue} of every tenant"),
        }
    }
}
