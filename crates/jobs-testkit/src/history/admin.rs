//! The judge on operators' verbs.

use jobs_core::{
    JobRef, Permit, State,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    permit::{Cancel, Verb},
    state::{Event, Step},
};

use super::{
    judge::{Judge, Verdict, legal},
    known::Known,
    op::{QUEUES, TENANTS, Target},
    time::Time,
};
use crate::kit::{operator, permit};

async fn permit_of<V: Verb>(target: &Target) -> Permit<V> {
    match target.by {
        Some(tenant) => permit(TENANTS[tenant]),
        None => operator().await,
    }
}

impl Judge<'_> {
    fn reference(&self, target: &Target) -> JobRef {
        JobRef { tenant: TENANTS[target.tenant].to_owned(), id: self.ids[target.id] }
    }

    /// The job, if it is stored and the target's permit covers it.
    fn in_scope(&mut self, target: &Target) -> Option<&mut Known> {
        let job = self.reference(target);
        let covered = target.by.is_none_or(|by| by == target.tenant);
        self.jobs.get_mut(&job).filter(|_| covered)
    }

    pub async fn retry(&mut self, target: &Target) -> Verdict {
        let (permit, job, since) =
            (permit_of(target).await, self.reference(target), self.clock.now());
        let answer = self.store.retry(&permit, std::slice::from_ref(&job)).await;
        let now = self.clock.since(since);
        let answer = answer.map_err(|error| format!("retry failed: {error}"))?;
        let Some(known) = self.in_scope(target).cloned() else {
            legal!(answer == [Retried::Unknown], "retry of unknown {job} answered {answer:?}");
            return Ok(());
        };
        let may = known.steps(Event::OperatorRetry, now)[0] == Step::To(State::Ready);
        let takes_key = known.state == State::Cancelled
            && known
                .job
                .key
                .as_ref()
                .is_some_and(|key| key.scope == jobs_core::KeyScope::UntilFinished);
        let holder = self.key_holder(&known.job).filter(|_| takes_key);
        let fits = match (answer.as_slice(), holder) {
            ([Retried::Retried], None) => may,
            ([Retried::KeyHeld(id, state)], Some(holder)) => {
                may && holder.job.id == *id && holder.may_be(*state, now)
            }
            ([Retried::NotRetryable(state)], _) => !may && known.may_be(*state, now),
            _ => false,
        };
        legal!(fits, "retry of {job} answered {answer:?}; {known:?}, key held by {holder:?}");
        if let ([Retried::Retried], Some(known)) = (answer.as_slice(), self.in_scope(target)) {
            known.goes_to(State::Ready, now);
            (known.due, known.attempt, known.moved_since) = (now, 0, true);
            known.suspect = known.suspect.filter(|suspect| !suspect);
        }
        Ok(())
    }

    pub async fn cancel(&mut self, target: &Target) -> Verdict {
        let job = self.reference(target);
        self.cancel_job(&permit_of(target).await, &job).await
    }

    pub async fn cancel_job(&mut self, permit: &Permit<Cancel>, job: &JobRef) -> Verdict {
        let since = self.clock.now();
        let answer = self.store.cancel(permit, std::slice::from_ref(job)).await;
        let now = self.clock.since(since);
        let answer = answer.map_err(|error| format!("cancel failed: {error}"))?;
        let known = self.jobs.get_mut(job).filter(|_| permit.covers(&job.tenant));
        let Some(known) = known else {
            legal!(answer == [Cancelled::Unknown], "cancel of unknown {job} answered {answer:?}");
            return Ok(());
        };
        let steps = known.steps(Event::OperatorCancel, now);
        let fits = match answer.as_slice() {
            [Cancelled::Cancelled] => steps.contains(&Step::To(State::Cancelled)),
            [Cancelled::Requested] => steps.contains(&Step::CancelRequested),
            [Cancelled::NotLive(state)] => !known.state.is_live() && known.may_be(*state, now),
            _ => false,
        };
        legal!(fits, "cancel of {job} answered {answer:?}: {known:?}");
        match answer.as_slice() {
            [Cancelled::Requested] => known.cancel_requested = true,
            [Cancelled::Cancelled] => {
                if known.state == State::Running {
                    // The lost attempt may be on record.
                    (known.claim, known.settled) = (None, None);
                    known.recorded.1 += 1;
                    known.suspect = None;
                }
                known.goes_to(State::Cancelled, now);
                known.moved_since = true;
            }
            _ => {}
        }
        Ok(())
    }

    pub async fn delete(&mut self, target: &Target) -> Verdict {
        let (permit, job, since) =
            (permit_of(target).await, self.reference(target), self.clock.now());
        let answer = self.store.delete(&permit, std::slice::from_ref(&job)).await;
        let now = self.clock.since(since);
        let answer = answer.map_err(|error| format!("delete failed: {error}"))?;
        let Some(known) = self.in_scope(target) else {
            legal!(answer == [Deleted::Unknown], "delete of unknown {job} answered {answer:?}");
            return Ok(());
        };
        let steps = known.steps(Event::OperatorDelete, now);
        let fits = match answer.as_slice() {
            [Deleted::Deleted] => steps.contains(&Step::Gone),
            [Deleted::Running] => steps.contains(&Step::Refused),
            _ => false,
        };
        legal!(fits, "delete of {job} answered {answer:?}: {known:?}");
        if answer == [Deleted::Deleted] {
            self.jobs.remove(&job);
        }
        Ok(())
    }

    pub async fn pause(&mut self, queue: usize, tenant: Option<usize>, pause: Pause) -> Verdict {
        let name = tenant.map(|tenant| TENANTS[tenant].to_owned());
        let lane = LaneRef { queue: QUEUES[queue].to_owned(), tenant: name };
        let change = LaneChange { pause: Some(pause), ..LaneChange::default() };
        let since = self.clock.now();
        let answer = self.store.set_lane(&operator().await, &lane, change).await;
        let now = self.clock.since(since);
        legal!(answer.as_ref().ok() == Some(&Tuned::Tuned), "{lane:?} answered {answer:?}");
        // Whether a queue's resume also ends its lanes' own pauses is the store's choice, so the
        // history ends them too.
        if tenant.is_none() && pause == Pause::Off {
            for tenant in 0..TENANTS.len() {
                Box::pin(self.pause(queue, Some(tenant), Pause::Off)).await?;
            }
        }
        match pause {
            Pause::Off => _ = self.pauses.remove(&(queue, tenant)),
            Pause::On => _ = self.pauses.insert((queue, tenant), None),
            Pause::For(length) => {
                self.pauses.insert((queue, tenant), Some(now.after(length)));
            }
        }
        Ok(())
    }

    /// Is the lane paused at `now`? `None`: a deadline may have passed.
    pub fn paused(&self, queue: &str, tenant: &str, now: Time) -> Option<bool> {
        let mut paused = Some(false);
        for ((of_queue, of_tenant), until) in &self.pauses {
            let covers = of_tenant.is_none_or(|of| TENANTS[of] == tenant);
            if QUEUES[*of_queue] != queue || !covers {
                continue;
            }
            match until.map_or(Some(false), |until| until.has_passed(now)) {
                Some(true) => {}
                Some(false) => return Some(true),
                None => paused = None,
            }
        }
        paused
    }
}
