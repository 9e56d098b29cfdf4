//! `resume`: workers take from a lane, or from a queue, again.

use clap::Args;
use jobs_core::{
    Admin, admin,
    permit::Read,
    view::{LaneCounts, Lanes},
};

use super::{Session, lane::tune};
use crate::{
    command::name,
    json,
    stop::Stop,
    text::{self, count},
};

/// Take from a queue again
///
/// It ends the pause of what it names: a lane may be paused by itself, and its queue as well.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The queue
    #[arg(value_parser = name)]
    queue: String,
}

impl Resume {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        let mut tuned = tune(session, "resume", &self.queue, admin::Pause::Off).await?;
        let still = still_paused(session, &self.queue).await?;
        if session.out.json {
            tuned.still_paused = still.iter().map(json::StillPaused::from).collect();
            session.out.object(&tuned)?;
            return Ok(0);
        }
        session.out.say(format!("Resumed {}.", session.lane_words(&self.queue)))?;
        let now = jobs_core::Timestamp::now();
        match (still.first(), session.access.sees_all()) {
            (Some(lane), false) => {
                let until = lane.settings.paused_until.map(|at| text::until(at, now));
                session.out.remark(format!(
                    "The queue {} itself is still paused {}: an operator resumes that, without \
                     --tenant.",
                    self.queue,
                    until.unwrap_or_default()
                ));
            }
            (Some(lane), true) => session.out.remark(format!(
                "{} still paused by itself, first that of tenant {}: resume each with --tenant.",
                match still.len() {
                    1 => "1 lane is".to_owned(),
                    more => format!("{} are", count(more as u64, "lane")),
                },
                lane.tenant
            )),
            (None, _) => {}
        }
        Ok(0)
    }
}

/// What another pause still holds. Who may tune and not look is not told.
async fn still_paused<A: Admin>(
    session: &Session<A>,
    queue: &str,
) -> Result<Vec<LaneCounts>, Stop> {
    let Ok(permit) = session.access.permit::<Read>().await else { return Ok(Vec::new()) };
    let lanes = Lanes { queue: Some(queue.to_owned()), tenant: session.access.tenant.clone() };
    let mut lanes = session.store.counts(&permit, &lanes).await?.lanes;
    lanes.retain(|lane| lane.settings.paused_until.is_some());
    Ok(lanes)
}
