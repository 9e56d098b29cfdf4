//! Reads the ledger, and sorts what happened by job.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use jobs_core::{Claim, JobRef};

use super::{
    Done,
    ledger::{Answer, EXTENSION, Event, How, Line},
    process::files,
};

/// The whole ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    /// What concerns one job.
    pub stories: BTreeMap<JobRef, Story>,
    /// What reserves took, by the time of their answers.
    pub takes: Vec<Take>,
    /// Everything else, by time.
    pub lines: Vec<Line>,
    /// When processes were gone.
    pub gone: HashMap<String, i64>,
}

/// One job's part of it, by time.
#[derive(Debug, Default)]
pub struct Story {
    /// Its pushes that were answered.
    pub pushes: Vec<Push>,
    /// When a push of it had no answer.
    pub unknown: Vec<i64>,
    /// Runs of its handler.
    pub runs: Vec<Run>,
    /// Its deliveries: in which take, and the fence.
    pub takes: Vec<(usize, i64)>,
    /// Operators' verbs: when, which, and the answer if this line is one.
    pub verbs: Vec<(i64, String, Option<String>)>,
}

/// An answered push.
#[derive(Clone, Debug)]
pub struct Push {
    /// When it was first sent.
    pub sent: i64,
    /// When it was answered.
    pub at: i64,
    /// To which queue.
    pub queue: String,
    /// The answer.
    pub answer: Answer,
}

/// A run of a handler.
#[derive(Clone, Debug)]
pub struct Run {
    /// By which process.
    pub by: String,
    /// Under which fence.
    pub fence: i64,
    /// When it started.
    pub start: i64,
    /// When and how it ended, if it was seen.
    pub end: Option<(i64, How)>,
}

/// An answered reserve that took something.
#[derive(Clone, Debug)]
pub struct Take {
    /// By which process.
    pub by: String,
    /// From which queue.
    pub queue: String,
    /// When it was sent.
    pub sent: i64,
    /// When it was answered.
    pub at: i64,
    /// What it took.
    pub claims: Vec<Claim>,
}

impl Story {
    /// The push that stored it.
    pub fn stored(&self) -> Option<&Push> {
        let stores = |push: &&Push| match push.answer {
            Answer::Stored => true,
            // Its first push had no answer.
            Answer::Duplicate(_) => !self.unknown.is_empty(),
            _ => false,
        };
        self.pushes.iter().find(stores)
    }

    /// Was this verb asked of it?
    pub fn asked(&self, verb: &str) -> bool {
        self.verbs.iter().any(|(_, asked, _)| asked == verb)
    }

    /// Was somebody told before then that it is deleted?
    fn deleted_before(&self, at: i64) -> bool {
        let told = |answer: &Option<String>| answer.as_deref() == Some("[Deleted]");
        self.verbs
            .iter()
            .any(|(when, verb, answer)| *when <= at && verb == "delete" && told(answer))
    }

    /// Was any verb asked of it before then?
    pub fn touched_before(&self, at: i64) -> bool {
        self.verbs.iter().any(|(asked, _, _)| *asked <= at)
    }
}

impl Ledger {
    /// All files of a directory.
    ///
    /// # Errors
    /// One cannot be read, or a line of it.
    pub fn read(directory: &Path) -> Done<Self> {
        let mut lines = Vec::new();
        let ending = format!(".{EXTENSION}");
        for name in files(directory).into_iter().filter(|name| name.ends_with(&ending)) {
            let said = |error: std::io::Error| format!("{name}: {error}");
            let file = File::open(directory.join(&name)).map_err(said)?;
            let mut torn = None;
            for line in BufReader::new(file).lines() {
                let line = line.map_err(said)?;
                if let Some(error) = torn.take() {
                    return Err(format!("{name}: {error}"));
                }
                // A process that was killed may have left half of its last line.
                match serde_json::from_str(&line) {
                    Ok(line) => lines.push(line),
                    Err(error) => torn = Some(format!("{error}: {line}")),
                }
            }
        }
        Ok(Self::of(lines))
    }

    /// From its lines.
    pub fn of(mut lines: Vec<Line>) -> Self {
        lines.sort_by_key(|line| line.at);
        let mut ledger = Self::default();
        lines.into_iter().for_each(|line| ledger.add(line));
        ledger
    }

    fn story(&mut self, job: &JobRef) -> &mut Story {
        // Most lines are about jobs that are known.
        if !self.stories.contains_key(job) {
            self.stories.insert(job.clone(), Story::default());
        }
        self.stories.entry(job.clone()).or_default()
    }

    fn add(&mut self, line: Line) {
        let (at, by) = (line.at, line.by.clone());
        match line.event {
            Event::Pushed { job, queue, sent, answer, .. } => {
                let story = self.story(&job);
                // Deleted and pushed again, it is another job under the same id: its fences start
                // over, and what was asked of the first does not bind it.
                if answer == Answer::Stored && story.deleted_before(sent) {
                    *story = Story::default();
                }
                story.pushes.push(Push { sent, at, queue, answer });
            }
            Event::Unknown { job, .. } => self.story(&job).unknown.push(at),
            Event::Start { job, fence, .. } => {
                self.story(&job).runs.push(Run { by, fence, start: at, end: None });
            }
            Event::End { job, fence, how } => {
                let runs = self.story(&job).runs.iter_mut();
                let run = runs.rev().find(|run| run.by == by && run.fence == fence);
                if let Some(run) = run {
                    run.end = Some((at, how));
                }
            }
            Event::Taken { queue, sent, claims } => {
                let take = self.takes.len();
                for claim in &claims {
                    self.story(&claim.job).takes.push((take, claim.fence));
                }
                self.takes.push(Take { by, queue, sent, at, claims });
            }
            Event::Verb { job, verb, answer } => self.story(&job).verbs.push((at, verb, answer)),
            event => {
                if let Event::Gone { who, .. } = &event {
                    self.gone.insert(who.clone(), at);
                }
                self.lines.push(Line { at, by, event });
            }
        }
    }

    /// When a run was over at the latest: its end, or that of its process.
    pub fn over(&self, run: &Run) -> i64 {
        let gone = || self.gone.get(&run.by).copied().unwrap_or(i64::MAX);
        run.end.map_or_else(gone, |(at, _)| at)
    }
}
