//! Every way out of a state, decided by the contract's table and written in a few statements for
//! all jobs of a call.

use std::collections::{BTreeMap, BTreeSet};

use jobs_core::{
    Cause, Outcome, OutcomeKind, State,
    queue::KEPT_ATTEMPTS,
    state::{Event, Facts, Step, step},
    time::after,
};

use crate::{
    db::query,
    error::Fault,
    row::{self, Row, get, outcome_number, small},
    tx::{Tx, json},
};

/// No lease ends later than this from now, in milliseconds: the longest is an hour, and a caller's
/// clock has no say. `sweep_expired.sql` says the same.
const LEASE_MOST: i64 = 2 * 3_600_000;

/// A live job, as far as a transition looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub job: i64,
    pub queue: i64,
    pub lane: i64,
    pub sublane: i64,
    pub state: State,
    pub run_at: i64,
    pub attempt: i64,
    pub max_attempts: i64,
    pub keyed: i64,
    pub fence: i64,
    pub nonce: i64,
    pub outcome: Option<i64>,
    pub cancel: bool,
    pub lease_until: Option<i64>,
    pub started_at: Option<i64>,
    pub worker: Option<String>,
}

impl Run {
    /// How many columns it has.
    pub const COLUMNS: usize = 16;

    /// From the columns of `moves_run.sql`, beginning at `at`; `None` when they are null.
    pub fn read(row: &Row, at: usize) -> Result<Option<Self>, Fault> {
        let Some(job) = get::<Option<i64>>(row, at)? else { return Ok(None) };
        Ok(Some(Self {
            job,
            queue: get(row, at + 1)?,
            lane: get(row, at + 2)?,
            sublane: get(row, at + 3)?,
            state: row::state(get(row, at + 4)?)?,
            run_at: get(row, at + 5)?,
            attempt: get(row, at + 6)?,
            max_attempts: get(row, at + 7)?,
            keyed: get(row, at + 8)?,
            fence: get(row, at + 9)?,
            nonce: get(row, at + 10)?,
            outcome: get(row, at + 11)?,
            cancel: get::<i64>(row, at + 12)? > 0,
            lease_until: get(row, at + 13)?,
            started_at: get(row, at + 14)?,
            worker: row::text(row, at + 15)?,
        }))
    }

    /// The live job of this number.
    pub async fn of(tx: &mut Tx<'_>, job: i64) -> Result<Option<Self>, Fault> {
        let row = tx.db.first(query(include_str!("op/moves_run.sql")).bind(job)).await?;
        row.map_or(Ok(None), |row| Self::read(&row, 0))
    }

    /// What the transition table looks at.
    pub fn facts(&self, now: i64) -> Facts {
        // A lease that ends later than the longest one could is damage, and would never end.
        let valid = |end: i64| end > now && end.saturating_sub(now) <= LEASE_MOST;
        let expired = self.state == State::Running && !self.lease_until.is_some_and(valid);
        Facts {
            due: self.run_at <= now,
            expired,
            cancel_requested: self.cancel,
            attempts_left: self.attempt < self.max_attempts,
        }
    }
}

type Back = (i64, i64, i64, i64, i64, Option<i64>, i64, i64, i64, i64);
type Record = (i64, i64, i64, String, i64, i64, i64, Option<String>);

/// Transitions not yet written.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    backs: Vec<Back>,
    ends: Vec<(i64, i64, Option<i64>)>,
    records: Vec<Record>,
    long: Vec<i64>,
    minutes: BTreeMap<i64, (i64, i64)>,
    done: BTreeMap<i64, i64>,
    freed: Vec<i64>,
    ready: BTreeSet<i64>,
    woken: BTreeSet<i64>,
    verbs: Vec<i64>,
    by: Option<(&'static str, String)>,
}

impl Moves {
    /// Moves whose jobs get a verb on record.
    pub fn by(verb: &'static str, who: &str) -> Self {
        Self { by: Some((verb, who.to_owned())), ..Self::default() }
    }

    /// Ends a run as its worker said. `None` when the table refuses.
    pub fn settle(
        &mut self,
        run: &Run,
        outcome: &Outcome,
        kind: OutcomeKind,
        now: i64,
    ) -> Option<State> {
        let Step::To(state) = step(run.state, outcome.event(), run.facts(now)) else { return None };
        // What an operator cancelled did not fail, however its holder put it.
        if state != State::Cancelled {
            self.count(run.lane, kind);
        }
        if state == State::Done {
            self.ends.push((run.job, state as i64, Some(outcome_number(kind))));
            *self.done.entry(run.queue).or_default() += 1;
            if run.keyed > 0 {
                self.freed.push(run.job);
            }
            return Some(state);
        }
        let due = outcome.delay().map_or(run.run_at, |delay| after(now, delay));
        self.end_run(run, state, kind, outcome.cause(), due, now);
        Some(state)
    }

    /// Takes a job from a silent holder. `None` when its lease is not over.
    pub fn lose(&mut self, run: &Run, now: i64) -> Option<State> {
        let Step::To(state) = step(run.state, Event::LoseLease, run.facts(now)) else {
            return None;
        };
        self.lost(run, state, now);
        Some(state)
    }

    /// The same, into `state`.
    fn lost(&mut self, run: &Run, state: State, now: i64) {
        let cause = Cause::from("the lease ran out without a renewal");
        self.count(run.lane, OutcomeKind::Lost);
        self.end_run(run, state, OutcomeKind::Lost, Some(&cause), run.run_at, now);
    }

    /// Ends a job by hand, whoever held it.
    pub fn cancel(&mut self, run: &Run, now: i64) {
        if run.state == State::Running {
            self.lost(run, State::Cancelled, now);
            if let Some(back) = self.backs.last_mut() {
                back.6 = back.6.saturating_add(1);
            }
        } else {
            self.back(run, State::Cancelled, run.run_at, run.attempt, run.sublane);
            self.disown(1);
            self.enter(run, State::Cancelled);
        }
        self.verbs.push(run.job);
    }

    /// Puts a job back in line by hand, attempts from the start.
    pub fn retry(&mut self, run: &Run, now: i64) {
        self.back(run, State::Ready, now, 0, run.sublane);
        if let Some(back) = self.backs.last_mut() {
            back.5 = run.outcome;
        }
        self.enter(run, State::Ready);
        self.verbs.push(run.job);
    }

    fn end_run(
        &mut self,
        run: &Run,
        state: State,
        kind: OutcomeKind,
        cause: Option<&Cause>,
        due: i64,
        now: i64,
    ) {
        let (given_back, sublane) = match kind {
            OutcomeKind::Snooze | OutcomeKind::Release => (1, run.sublane),
            OutcomeKind::Lost => (0, run.sublane | 1),
            _ => (0, run.sublane & !1),
        };
        if kind.is_recorded() {
            let (worker, cause) = (run.worker.clone(), cause.map(|cause| cause.as_str().into()));
            let (worker, started) = (worker.unwrap_or_default(), run.started_at.unwrap_or(now));
            let number = outcome_number(kind);
            self.records.push((
                run.job,
                run.fence,
                run.attempt,
                worker,
                started,
                now,
                number,
                cause,
            ));
            if small(run.fence) as usize > KEPT_ATTEMPTS {
                self.long.push(run.job);
            }
        }
        self.back(run, state, due, run.attempt.saturating_sub(given_back).max(0), sublane);
        let end = Run { sublane, ..run.clone() };
        match (kind, self.backs.last_mut()) {
            (OutcomeKind::Lost, _) => self.disown(0),
            (_, Some(back)) => {
                back.5 = Some(outcome_number(kind));
                back.8 = i64::from(kind == OutcomeKind::Snooze);
                back.9 = i64::from(kind == OutcomeKind::Release);
            }
            (_, None) => {}
        }
        self.enter(&end, state);
    }

    fn back(&mut self, run: &Run, state: State, due: i64, attempt: i64, sublane: i64) {
        let (fence, nonce) = (run.fence, run.nonce);
        self.backs.push((run.job, state as i64, due, attempt, sublane, None, fence, nonce, 0, 0));
    }

    /// From now on every earlier claim of the last job is stale.
    fn disown(&mut self, fences: i64) {
        if let Some(back) = self.backs.last_mut() {
            (back.5, back.6, back.7) = (None, back.6.saturating_add(fences), 0);
        }
    }

    fn enter(&mut self, run: &Run, state: State) {
        match state {
            State::Cancelled => {
                self.ends.push((run.job, state as i64, None));
                if run.keyed > 0 {
                    self.freed.push(run.job);
                }
            }
            State::Ready => {
                self.ready.insert(run.sublane);
                self.woken.insert(run.queue);
            }
            State::Scheduled => {
                self.woken.insert(run.queue);
            }
            _ => {}
        }
    }

    fn count(&mut self, lane: i64, kind: OutcomeKind) {
        let (finished, failed) = match kind {
            OutcomeKind::Done => (1, 0),
            OutcomeKind::Retry | OutcomeKind::Park | OutcomeKind::Lost => (0, 1),
            OutcomeKind::Snooze | OutcomeKind::Release | OutcomeKind::Cancelled => return,
        };
        let minute = self.minutes.entry(lane).or_default();
        *minute = (minute.0 + finished, minute.1 + failed);
    }

    /// Writes them: one statement of each kind that occurs.
    pub async fn write(self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        if self.backs.is_empty() && self.ends.is_empty() {
            return Ok(());
        }
        tx.dirty = true;
        tx.woken.extend(&self.woken);
        let now = tx.now;
        let db = &mut tx.db;
        if !self.records.is_empty() {
            let record = query(include_str!("op/moves_record.sql"));
            db.run(record.bind(json(&self.records))).await?;
        }
        if !self.long.is_empty() {
            let trim = query(include_str!("op/moves_trim.sql")).bind(json(&self.long));
            db.run(trim.bind(KEPT_ATTEMPTS as i64)).await?;
        }
        if !self.backs.is_empty() {
            db.run(query(include_str!("op/moves_back.sql")).bind(json(&self.backs))).await?;
        }
        if let (Some((verb, by)), false) = (&self.by, self.verbs.is_empty()) {
            let record = query(include_str!("op/moves_verb.sql")).bind(json(&self.verbs));
            db.run(record.bind(*verb).bind(by).bind(now)).await?;
        }
        if !self.ends.is_empty() {
            let ends = json(&self.ends);
            db.run(query(include_str!("op/moves_end.sql")).bind(&ends).bind(now)).await?;
            db.run(query(include_str!("op/moves_gone.sql")).bind(&ends)).await?;
        }
        if !self.freed.is_empty() {
            db.run(query(include_str!("op/free_keys.sql")).bind(json(&self.freed))).await?;
        }
        if !self.ready.is_empty() {
            db.run(query(include_str!("op/ring.sql")).bind(json(&self.ready))).await?;
        }
        if !self.done.is_empty() {
            let done: Vec<_> = self.done.into_iter().collect();
            db.run(query(include_str!("op/moves_count.sql")).bind(json(&done))).await?;
        }
        if !self.minutes.is_empty() {
            let row = |(lane, (finished, failed)): (i64, (i64, i64))| (lane, finished, failed);
            let minutes: Vec<_> = self.minutes.into_iter().map(row).collect();
            let count = query(include_str!("op/moves_minute.sql")).bind(json(&minutes));
            db.run(count.bind(now - now.rem_euclid(60_000))).await?;
        }
        Ok(())
    }
}
