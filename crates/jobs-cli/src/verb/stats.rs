//! `stats`: how much waits, how long, and how much was done.

use std::{borrow::Cow, collections::BTreeMap};

use clap::Args;
use jobs_core::{
    Admin, Timestamp,
    view::{Counts, LaneCounts, Lanes},
};

use super::Session;
use crate::{
    command::name,
    json,
    stop::Stop,
    table::table,
    text::{self, count, grouped, span},
};

/// Minutes that are shown one by one, for people.
const MINUTES: usize = 10;

/// Count jobs by queue and tenant: waiting, running, the oldest, done per minute
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Only this queue
    #[arg(long, value_parser = name)]
    queue: Option<String>,
}

impl Stats {
    pub async fn run<A: Admin>(self, session: &Session<A>) -> Result<u8, Stop> {
        let permit = session.access.permit().await?;
        let lanes = Lanes { queue: self.queue, tenant: session.access.tenant.clone() };
        let counts = session.store.counts(&permit, &lanes).await?;
        if session.out.json {
            session.out.object(&json::Stats::from(&counts))?;
            return Ok(0);
        }
        let scope = session.access.words();
        match counts.lanes.is_empty() {
            true => session.out.remark(format!("There are no live jobs {scope}.")),
            false => session.out.say(in_table(&counts.lanes, Timestamp::now()) + "\n")?,
        }
        if !counts.complete {
            let shown = count(counts.lanes.len() as u64, "lane");
            let what = "those where jobs wait come first; --queue or --tenant shows others";
            session.out.remark(format!("These are {shown} of more: {what}."));
        }
        session.out.say(minutes(&counts))?;
        Ok(0)
    }
}

fn in_table(lanes: &[LaneCounts], now: Timestamp) -> String {
    let heading = [
        "QUEUE",
        "TENANT",
        "WAITING#",
        "RUNNING#",
        "SCHEDULED#",
        "PARKED#",
        "OLDEST#",
        "WEIGHT#",
        "PAUSED",
    ];
    let rows = lanes.iter().map(|lane| {
        let oldest = match lane.oldest.is_zero() {
            true => "-".to_owned(),
            false => span(lane.oldest),
        };
        let paused = lane.settings.paused_until.map(|at| text::until(at, now));
        [
            Cow::from(&lane.queue),
            Cow::from(&lane.tenant),
            lane.waiting.to_string().into(),
            lane.running.to_string().into(),
            lane.scheduled.to_string().into(),
            lane.parked.to_string().into(),
            oldest.into(),
            lane.settings.weight.to_string().into(),
            paused.unwrap_or_default().into(),
        ]
    });
    table(&heading, rows)
}

/// What ended, the last minutes one by one, all lanes together.
fn minutes(counts: &Counts) -> String {
    let mut by_minute = BTreeMap::<Timestamp, (u64, u64)>::new();
    for minute in &counts.minutes {
        let sum = by_minute.entry(minute.at).or_default();
        sum.0 += minute.finished;
        sum.1 += minute.failed;
    }
    let (finished, failed) =
        by_minute.values().fold((0, 0), |sum, minute| (sum.0 + minute.0, sum.1 + minute.1));
    let hour = format!(
        "In the last hour {} done, and {} failed.",
        count(finished, "job"),
        count(failed, "attempt")
    );
    if by_minute.is_empty() {
        return hour;
    }
    let rows = by_minute.iter().rev().take(MINUTES).map(|(at, (finished, failed))| {
        [Cow::from(at.to_string()), grouped(*finished).into(), grouped(*failed).into()]
    });
    format!("{hour}\n\n{}", table(&["MINUTE", "DONE#", "FAILED#"], rows))
}
