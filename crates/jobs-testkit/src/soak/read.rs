//! Reads the ledger, and sorts what happened by job.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use jobs_core::{Claim, JobRef, Key, OutcomeKind};

use super::{
    Done,
    ledger::{Answer, EXTENSION, Event, How, Line, Told},
    process::files,
};

/// How the answer of a verb begins that had none.
pub const UNANSWERED: &str = "no answer";

/// The whole ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    /// What concerns one job.
    pub stories: BTreeMap<JobRef, Story>,
    /// What reserves took, by the time of their answers.
    pub takes: Vec<Take>,
    /// Renewals that were answered, with whatever claims: by whom, sent, answered.
    pub renewals: Vec<(String, i64, i64)>,
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
    /// Renewals that were answered held.
    pub renewals: Vec<Renewal>,
    /// Settlements by its holders, as they were answered or given up.
    pub settlements: Vec<Sent>,
    /// Writes that had to be refused.
    pub late: Vec<Late>,
    /// Operators' verbs: when, which, and the answer if this line is one.
    pub verbs: Vec<(i64, String, Option<String>)>,
    /// A job of this id was deleted before it was pushed.
    pub reborn: bool,
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
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: Option<Key>,
    /// The answer.
    pub answer: Answer,
}

/// A run of a handler.
#[derive(Clone, Debug)]
pub struct Run {
    /// By which process.
    pub by: String,
    /// Of which queue, as its handler was told.
    pub queue: String,
    /// Of which name.
    pub name: String,
    /// With which payload.
    pub payload: String,
    /// Under which fence.
    pub fence: i64,
    /// Which attempt its handler was told that it is.
    pub attempt: u32,
    /// When it started.
    pub start: i64,
    /// When and how it ended, if it was seen.
    pub end: Option<(i64, How)>,
}

/// A renewal that was answered held.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// By which process.
    pub by: String,
    /// Under which fence.
    pub fence: i64,
    /// When it was sent.
    pub sent: i64,
    /// When it was answered.
    pub at: i64,
}

/// A settlement by the claim's holder.
#[derive(Clone, Debug)]
pub struct Sent {
    /// By which process.
    pub by: String,
    /// Under which fence.
    pub fence: i64,
    /// What was to be settled.
    pub outcome: OutcomeKind,
    /// When it was sent.
    pub sent: i64,
    /// When it was answered, or given up.
    pub at: i64,
    /// The answer.
    pub told: Option<Told>,
}

/// A write that had to be refused, and was answered.
#[derive(Clone, Debug)]
pub struct Late {
    /// By which process.
    pub by: String,
    /// Under which fence.
    pub fence: i64,
    /// A settlement, or a renewal.
    pub outcome: Option<OutcomeKind>,
    /// Under another nonce than the delivery's; else the claim was over.
    pub forged: bool,
    /// When it was sent.
    pub sent: i64,
    /// When it was answered.
    pub at: i64,
    /// The answer.
    pub told: Told,
    /// What it did all the same.
    pub changed: Option<String>,
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

    /// Was somebody told that this verb did this?
    pub fn told(&self, verb: &str, did: &str) -> bool {
        let does = |told: &str| told.trim_start_matches('[').starts_with(did);
        let mut told = self.verbs.iter().filter(|(_, asked, _)| asked == verb);
        told.any(|(.., answer)| answer.as_deref().is_some_and(does))
    }

    /// May this verb have done it without anybody being told? An answer of another kind excuses
    /// nothing.
    pub fn unheard(&self, verb: &str) -> bool {
        let all = || self.verbs.iter().filter(|(_, asked, _)| asked == verb);
        let heard = |answer: &&str| !answer.starts_with(UNANSWERED);
        let answers = all().filter_map(|(.., answer)| answer.as_deref());
        let asked = all().filter(|(.., answer)| answer.is_none()).count();
        asked > answers.filter(heard).count()
    }

    /// Did, or may, this verb have done this to it?
    pub fn may(&self, verb: &str, did: &str) -> bool {
        self.told(verb, did) || self.unheard(verb)
    }

    /// May a job of this id have been there before?
    fn was_pushed(&self) -> bool {
        !self.pushes.is_empty() || !self.unknown.is_empty()
    }

    /// The last delete that was asked for before then and did, or may have done it: where it and its
    /// answer are among the verbs.
    fn deleted_before(&self, at: i64) -> Option<(usize, Option<usize>)> {
        let deletes =
            |(_, (_, verb, _)): &(usize, &(i64, String, Option<String>))| verb == "delete";
        let asked = self.verbs.iter().enumerate().filter(deletes);
        let asked = asked.filter(|(_, (when, _, answer))| *when <= at && answer.is_none());
        let did = |(place, _)| {
            let mut later = self.verbs.iter().enumerate().skip(place + 1).filter(deletes);
            let answer = later.find_map(|(at, (.., answer))| Some((at, answer.as_deref()?)));
            let told =
                answer.is_none_or(|(_, told)| told == "[Deleted]" || told.starts_with(UNANSWERED));
            told.then(|| (place, answer.map(|(at, _)| at)))
        };
        asked.filter_map(did).next_back()
    }

    /// What of it is of the time from then on.
    ///
    /// A delete that overlapped the push may have come after it, unless the job was stored before and
    /// this push stored it again: else whoever asked does not know.
    fn since(
        self,
        (sent, stored): (i64, bool),
        delete: (usize, Option<usize>),
        takes: &[Take],
    ) -> Self {
        let (asked, answered) = delete;
        let over = answered.is_some_and(|answered| self.verbs[answered].0 <= sent);
        let again = stored && self.pushes.iter().any(|push| push.answer == Answer::Stored);
        let known = over || again;
        // The delete may have come while the push was under way.
        let at = sent.max(self.verbs[asked].0);
        let Self { pushes, mut unknown, mut runs, takes: mut own, .. } = self;
        let (mut renewals, mut settlements) = (self.renewals, self.settlements);
        let (mut late, mut verbs) = (self.late, self.verbs);
        unknown.retain(|when| *when >= at);
        runs.retain(|run| run.start >= at);
        own.retain(|(take, _)| takes[*take].sent >= at);
        let fences: Vec<i64> = own.iter().map(|(_, fence)| *fence).collect();
        renewals.retain(|renewal| renewal.sent >= at && fences.contains(&renewal.fence));
        settlements.retain(|sent| sent.sent >= at && fences.contains(&sent.fence));
        late.retain(|late| late.at >= at && fences.contains(&late.fence));
        let mut place = 0;
        verbs.retain(|(when, ..)| {
            place += 1;
            // The delete is the first job's.
            let asked = place - 1 == asked;
            if asked { !known } else { *when >= at && Some(place - 1) != answered }
        });
        drop(pushes);
        Self {
            pushes: Vec::new(),
            unknown,
            runs,
            takes: own,
            renewals,
            settlements,
            late,
            verbs,
            reborn: true,
        }
    }

    /// When and by whom this delivery was taken.
    pub fn take<'l>(&self, takes: &'l [Take], by: &str, fence: i64) -> Option<&'l Take> {
        let of = self.takes.iter().filter(|(_, of)| *of == fence);
        of.map(|(take, _)| &takes[*take]).find(|take| take.by == by)
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
        // Whether a delete came before a push is known by its answer, which may be heard later.
        let (verbs, others): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| matches!(line.event, Event::Verb { .. }));
        verbs.into_iter().chain(others).for_each(|line| ledger.add(line));
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
            Event::Pushed { job, queue, name, key, sent, answer } => {
                let story = self.story(&job);
                // Deleted and pushed again, it is another job under the same id: its fences start
                // over, and what was asked of the first does not bind it.
                let again = match answer {
                    Answer::Stored => true,
                    Answer::Duplicate(_) => story.unknown.iter().any(|unknown| *unknown >= sent),
                    _ => false,
                };
                if again
                    && story.was_pushed()
                    && let Some(delete) = story.deleted_before(at)
                {
                    let first = std::mem::take(story);
                    let stored = answer == Answer::Stored;
                    let since = first.since((sent, stored), delete, &self.takes);
                    *self.story(&job) = since;
                }
                self.story(&job).pushes.push(Push { sent, at, queue, name, key, answer });
            }
            Event::Unknown { job, .. } => self.story(&job).unknown.push(at),
            Event::Start { job, queue, name, payload, attempt, fence } => {
                let run = Run { by, queue, name, payload, fence, attempt, start: at, end: None };
                self.story(&job).runs.push(run);
            }
            Event::Renewed { sent, claims } => {
                for (job, fence) in claims {
                    let by = by.clone();
                    self.story(&job).renewals.push(Renewal { by, fence, sent, at });
                }
                self.renewals.push((by, sent, at));
            }
            Event::Settled { job, fence, outcome, sent, told } => {
                let sent = Sent { by, fence, outcome, sent, at, told };
                self.story(&job).settlements.push(sent);
            }
            Event::Late { job, fence, outcome, forged, sent, told, changed } => {
                let late = Late { by, fence, outcome, forged, sent, at, told, changed };
                self.story(&job).late.push(late);
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
