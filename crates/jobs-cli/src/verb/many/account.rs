//! What became of each job, and the account of it.

use indicatif::{ProgressBar, ProgressStyle};
use jobs_core::{Admin, JobRef, Permit, State};

use super::{Answer, BATCH, Change, NAMED};
use crate::{json, stop::Stop, text, text::count, verb::Session};

/// Unchanged jobs that are kept for `--json`.
const KEPT: usize = 1000;

/// What became of all of them.
pub(super) struct Account {
    pub sum: json::Changed,
    lines: Vec<String>,
    bar: ProgressBar,
}

impl Account {
    pub fn new(verb: &'static str, asked: usize) -> Self {
        let asked = asked as u64;
        let bar = if asked as usize > BATCH { progress(asked) } else { ProgressBar::hidden() };
        let sum = json::Changed { verb, asked, ..json::Changed::default() };
        Self { sum, lines: Vec::new(), bar }
    }

    pub async fn apply<C: Change, A: Admin>(
        &mut self,
        session: &Session<A>,
        permit: &Permit<C::Verb>,
        jobs: &[JobRef],
    ) -> Result<(), Stop> {
        for batch in jobs.chunks(BATCH) {
            let answers = C::apply(&session.store, permit, batch).await?;
            for (job, answer) in batch.iter().zip(answers) {
                self.add(job, &answer);
            }
            self.bar.inc(batch.len() as u64);
        }
        Ok(())
    }

    fn add(&mut self, job: &JobRef, answer: &Answer) {
        *self.sum.answers.entry(answer.word).or_default() += 1;
        if answer.changed {
            self.sum.changed += 1;
            return;
        }
        let unchanged = json::Unchanged {
            state: answer.state.map(State::as_str),
            held_by: answer.held_by.map(|id| id.to_string()),
            ..json::Unchanged::new(job, answer.word)
        };
        if self.lines.len() < NAMED {
            self.lines.push(format!("  {job}  {}", in_words(&unchanged)));
        }
        if self.sum.unchanged.len() < KEPT {
            self.sum.unchanged.push(unchanged);
        }
    }

    /// So many left the filter before their turn.
    pub fn moved_on(&mut self, jobs: u64) {
        if jobs > 0 {
            self.sum.answers.insert("moved_on", jobs);
        }
    }

    /// Says what was done, also where the rest failed.
    pub fn close<A>(self, session: &Session<A>, result: Result<(), Stop>) -> Result<u8, Stop> {
        self.bar.finish_and_clear();
        let unchanged: u64 =
            self.answers().filter(|(word, _)| !is_change(word)).map(|(_, n)| n).sum();
        match session.out.json {
            true => session.out.object(&self.sum)?,
            false => {
                let words = self.answers().map(|(word, number)| {
                    format!("{} {}", text::grouped(number), word.replace('_', " "))
                });
                let words: Vec<_> = words.collect();
                if !words.is_empty() {
                    session.out.say(format!("{}.", words.join(", ")))?;
                }
                if !self.lines.is_empty() {
                    session.out.say(self.lines.join("\n"))?;
                }
                if unchanged > NAMED as u64 {
                    session.out.say(format!("  and {} more", unchanged - NAMED as u64))?;
                }
            }
        }
        result.map_err(|stop| Stop {
            message: format!(
                "{} of {} were changed before this; the same again is safe\n{}",
                self.sum.changed,
                count(self.sum.asked, "job"),
                stop.message
            ),
            ..stop
        })?;
        Ok(u8::from(unchanged > 0))
    }

    fn answers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.sum.answers.iter().map(|(word, number)| (*word, *number))
    }
}

/// A job that left the filter by itself is nobody's failure.
fn is_change(word: &str) -> bool {
    matches!(word, "retried" | "cancelled" | "requested" | "deleted" | "moved_on")
}

fn in_words(unchanged: &json::Unchanged) -> String {
    match (unchanged.answer, unchanged.state, &unchanged.held_by) {
        ("unknown", ..) => "no such job".to_owned(),
        ("running", ..) => "runs: cancel it first".to_owned(),
        ("key_held", Some(state @ ("parked" | "cancelled")), Some(by)) => {
            format!(
                "its key is held by {}/{by}, which is {state}: see to that one",
                unchanged.tenant
            )
        }
        ("key_held", state, Some(by)) => {
            let state = state.unwrap_or("live");
            format!(
                "its key is held by {}/{by}, which is {state} and does its work",
                unchanged.tenant
            )
        }
        (_, Some(state), _) => format!("is {state}"),
        (answer, ..) => answer.replace('_', " "),
    }
}

fn progress(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len}, {eta} left");
    let bar = ProgressBar::new(length);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
