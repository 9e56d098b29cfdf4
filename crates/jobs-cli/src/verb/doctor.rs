//! `doctor`: why are jobs not running? What it says is core's, so that a page says the same.

use jobs_core::{
    Admin,
    doctor::{self, Facts, PROBLEM},
};

use super::Session;
use crate::{
    json,
    stop::{FAILED, Stop},
    text::{count, printable, span},
};

/// The exit status is 1 where something is wrong. A pause, jobs that are due later and parked jobs are
/// told, and are not wrong.
pub(crate) async fn run<A: Admin>(session: &Session<A>) -> Result<u8, Stop> {
    let permit = session.access.permit().await?;
    let tenant = session.access.tenant.as_deref();
    let facts = Facts::gather(&session.store, &permit, tenant).await?;
    let findings = doctor::find(&facts);
    let healthy = findings.iter().all(|finding| finding.level != PROBLEM);
    let status = if healthy { 0 } else { FAILED };
    if session.out.json {
        session.out.object(&in_json(&facts, healthy, findings))?;
        return Ok(status);
    }
    session.out.say(summary(&facts, &session.access.words()))?;
    for finding in &findings {
        let level = finding.level.to_uppercase();
        session.out.say(format!("\n{level}: {}\n  {}", finding.what, finding.remedy))?;
    }
    let problems = findings.iter().filter(|finding| finding.level == PROBLEM).count();
    session.out.say(match problems {
        0 => "\nNothing is wrong.".to_owned(),
        some => format!("\n{}.", count(some as u64, "problem")),
    })?;
    Ok(status)
}

fn summary(facts: &Facts, scope: &str) -> String {
    let sum = &facts.sum;
    let slots: u64 = facts.workers.iter().map(|view| u64::from(view.worker.slots)).sum();
    let busy: u64 = facts.workers.iter().map(|view| u64::from(view.worker.busy)).sum();
    let alive = count(facts.workers.len() as u64, "worker");
    let oldest = match facts.oldest.is_zero() {
        true => String::new(),
        false => format!(", the longest for {}", span(facts.oldest)),
    };
    format!(
        "{}, schema {}, now {}\n{alive} alive, {busy} of {} busy\nJobs {scope}: {} waiting{oldest}, \
         {} running, {} scheduled, {} parked",
        printable(&facts.check.store),
        facts.check.schema,
        facts.check.now,
        count(slots, "slot"),
        sum.waiting,
        sum.running,
        sum.scheduled,
        sum.parked
    )
}

fn in_json(facts: &Facts, healthy: bool, findings: Vec<json::Finding>) -> json::Doctor {
    json::Doctor {
        healthy,
        findings,
        store: facts.check.store.clone(),
        schema: facts.check.schema,
        now: facts.check.now,
        clock_ahead_seconds: facts.clock_ahead.as_secs_f64(),
        workers: facts.workers.len() as u64,
        waiting: facts.sum.waiting.into(),
        running: facts.sum.running.into(),
        scheduled: facts.sum.scheduled.into(),
        parked: facts.sum.parked.into(),
    }
}
