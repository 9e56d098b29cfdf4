//! Push (P1–P5).

use jobs_core::{AuthorizedJob, Payload, State, job::RunAt, queue::Pushed, state};

use super::{row::Row, store::Store};
use crate::broken::Fault;

impl Store {
    /// Stores one job, unless its id is stored or its key held. The id is looked at first.
    pub fn push(&mut self, pushed: &AuthorizedJob) -> Pushed {
        let job = pushed.job_ref();
        if self.faulty(Fault::KeyBeatsId)
            && let Some(held) = self.key_held(pushed)
        {
            return held;
        }
        if self.faulty(Fault::DoneFreesTheId)
            && self.rows.get(&job).is_some_and(|row| row.state == State::Done)
        {
            self.remove(&job);
        }
        if let Some(stored) = self.rows.get(&job) {
            if self.faulty(Fault::IdPerQueue) && stored.job.queue != pushed.queue {
                return Pushed::Stored;
            }
            let state = stored.state;
            if self.faulty(Fault::DuplicateOverwrites) {
                self.change(&job, |row| row.job.payload = pushed.payload.clone());
            }
            return Pushed::Duplicate(state);
        }
        if self.faulty(Fault::IdsShared)
            && let Some(other) = self.rows.iter().find(|(stored, _)| stored.id == job.id)
        {
            return Pushed::Duplicate(other.1.state);
        }
        if let Some(held) = self.key_held(pushed) {
            return held;
        }
        self.insert(self.new_row(pushed));
        if !self.faulty(Fault::WakeUpLost) {
            self.bell.ring(&pushed.queue);
        }
        Pushed::Stored
    }

    /// Does another job hold its key?
    fn key_held(&self, pushed: &AuthorizedJob) -> Option<Pushed> {
        let key = pushed.key.as_ref().filter(|_| !self.faulty(Fault::KeyIgnored))?;
        let holder = self.keys.get(&self.key_of(&pushed.tenant, &key.text))?;
        let row = self.rows.get(holder)?;
        Some(Pushed::KeyHeld(row.job.id, row.state))
    }

    fn new_row(&self, pushed: &AuthorizedJob) -> Row {
        // Now is read last: a job that is due at once is in line at once, also when the clock moves
        // on between the two readings.
        let due = self.clock.due_at(pushed);
        let now = self.clock.now();
        let (mut job, mut due) = ((**pushed).clone(), due.max(now));
        due += 500 * i64::from(self.faulty(Fault::PushesAreSeenLate));
        if let (RunAt::At(time), true) = (job.run_at, self.faulty(Fault::RunAtRoundsDown)) {
            let down = i128::from(time.as_millisecond()) * 1_000_000 < time.as_nanosecond();
            due -= i64::from(down);
        }
        if let (RunAt::At(time), true) = (job.run_at, self.faulty(Fault::BackdatingOvertakes)) {
            due = due.min(time.as_millisecond());
        }
        if self.faulty(Fault::PayloadReencoded)
            && let Ok(value) = job.payload.decode::<serde_json::Value>()
        {
            job.payload = Payload::encode(&value).unwrap_or_default();
        }
        Row {
            job,
            state: state::pushed(due <= now),
            due,
            pushed_at: now,
            finished_at: None,
            attempt: 0,
            max_attempts: pushed.max_attempts(),
            suspect: false,
            cancel_requested: false,
            holds_key: true,
            fence: 0,
            nonce: None,
            settled: None,
            lease: None,
            attempts: Vec::new(),
            snoozes: 0,
            releases: 0,
            verb: None,
            stub: false,
        }
    }
}
