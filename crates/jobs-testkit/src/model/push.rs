//! Push (P1–P5).

use jobs_core::{AuthorizedJob, Payload, job::RunAt, queue::Pushed, state};

use super::{row::Row, store::Store};
use crate::broken::Fault;

impl Store {
    /// Stores one job, unless its id is stored or its key held. The id is looked at first.
    pub fn push(&mut self, pushed: &AuthorizedJob) -> Pushed {
        let job = pushed.job_ref();
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
        if let Some(key) = pushed.key.as_ref().filter(|_| !self.faulty(Fault::KeyIgnored)) {
            let holder = self.keys.get(&self.key_of(&job.tenant, &key.text));
            if let Some(row) = holder.and_then(|holder| self.rows.get(holder)) {
                return Pushed::KeyHeld(row.job.id, row.state);
            }
        }
        self.insert(self.new_row(pushed));
        if !self.faulty(Fault::WakeUpLost) {
            self.bell.ring(&pushed.queue);
        }
        Pushed::Stored
    }

    fn new_row(&self, pushed: &AuthorizedJob) -> Row {
        // Now is read last: a job that is due at once is in line at once, also when the clock moves
        // on between the two readings.
        let due = self.clock.due_at(pushed);
        let now = self.clock.now();
        let (mut job, mut due) = ((**pushed).clone(), due.max(now));
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
