//! `pause`: workers take nothing more from a lane, or from a queue.

use std::time::Duration;

use clap::Args;
use jobs_core::{Admin, admin};

use super::{Session, lane::tune};
use crate::{
    command::{duration, name},
    stop::Stop,
    text::span,
};

/// Take nothing more from a queue, for a time or until it is resumed
///
/// What runs goes on. With --tenant it is that tenant's lane of the queue; without it, as an operator,
/// the queue of every tenant, also of those that come later.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The queue
    #[arg(value_parser = name)]
    queue: String,
    /// For how long, by the store's clock; without it, until it is resumed
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
}

impl Pause {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        let pause = self.length.map_or(admin::Pause::On, admin::Pause::For);
        let tuned = tune(session, "pause", &self.queue, pause).await?;
        if session.out.json {
            session.out.object(&tuned)?;
            return Ok(0);
        }
        let lane = session.lane_words(&self.queue);
        let length = match self.length {
            Some(length) => format!("for {}", span(length)),
            None => "until it is resumed".to_owned(),
        };
        session.out.say(format!("Paused {lane} {length}. What runs goes on."))?;
        Ok(0)
    }
}
