//! The judge: plays operations and compares each answer with what is legal.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jobs_core::{
    Admin, AuthorizedJob, Claim, Job, JobId, JobRef, Outcome, Settled, Settlement, State,
    queue::{Delivery, Lease, Pushed, Renewed, Reserve},
    state::{Event, Step},
};

use super::{
    known::{Known, Standing},
    op::{IDS, Op, Push, QUEUES},
    time::{Clock, Time},
};
use crate::kit::{Kit, checked, operator};

/// What is known of the store.
pub(super) struct Judge<'a> {
    kit: &'a Kit,
    pub store: Arc<dyn Admin>,
    pub clock: Clock,
    pub ids: Vec<JobId>,
    pub jobs: BTreeMap<JobRef, Known>,
    /// By queue and tenant: until when, `None` for good.
    pub pauses: BTreeMap<(usize, Option<usize>), Option<Time>>,
    claims: Vec<Claim>,
    reserves: Vec<(Reserve, Vec<Claim>)>,
}

pub(super) type Verdict = Result<(), String>;

/// Illegal unless it holds.
macro_rules! legal {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(super) use legal;

impl<'a> Judge<'a> {
    pub async fn new(kit: &'a Kit) -> Self {
        Self {
            kit,
            store: kit.handle().await,
            clock: Clock::start(),
            ids: (0..IDS).map(|_| JobId::new()).collect(),
            jobs: BTreeMap::new(),
            pauses: BTreeMap::new(),
            claims: Vec::new(),
            reserves: Vec::new(),
        }
    }

    /// Plays one operation.
    pub async fn play(&mut self, op: &Op) -> Verdict {
        match op {
            Op::Push(pushes) => self.push(pushes).await,
            Op::Reserve { queue, names, slots } => {
                let request = Reserve::new(QUEUES[*queue], names.iter().copied(), "judge");
                self.reserve(request.map_err(|error| error.to_string())?.slots(*slots), None).await
            }
            Op::ReserveAgain(which) if !self.reserves.is_empty() => {
                let which = which % self.reserves.len();
                self.reserve(self.reserves[which].0.clone(), Some(which)).await
            }
            Op::Renew { claim } if !self.claims.is_empty() => self.renew(self.claim(*claim)).await,
            Op::Settle(batch) if !self.claims.is_empty() => self.settle(batch).await,
            Op::CancelClaimed(claim) if !self.claims.is_empty() => {
                let job = self.claim(*claim).job;
                self.cancel_job(&operator().await, &job).await
            }
            Op::ReserveAgain(_) | Op::Renew { .. } | Op::Settle(_) | Op::CancelClaimed(_) => Ok(()),
            Op::Sweep => self.sweep().await,
            Op::Age(by) => {
                self.kit.age(*by).await;
                self.clock.age(*by);
                Ok(())
            }
            Op::Retry(target) => self.retry(target).await,
            Op::Cancel(target) => self.cancel(target).await,
            Op::Delete(target) => self.delete(target).await,
            Op::Look(tenant) => self.look(*tenant).await,
            Op::Pause { queue, tenant, pause } => self.pause(*queue, *tenant, *pause).await,
        }
    }

    /// The n-th newest claim.
    fn claim(&self, number: usize) -> Claim {
        let count = self.claims.len();
        self.claims[count - 1 - number % count].clone()
    }

    /// Who holds a job's key, other than itself.
    pub fn key_holder(&self, job: &Job) -> Option<&Known> {
        let key = job.key.as_ref()?;
        let holds = |known: &&Known| {
            let same = known.job.key.as_ref().is_some_and(|held| held.text == key.text);
            same && known.holds_key && known.job.tenant == job.tenant && known.job.id != job.id
        };
        self.jobs.values().find(holds)
    }

    async fn push(&mut self, pushes: &[Push]) -> Verdict {
        let jobs: Vec<AuthorizedJob> =
            pushes.iter().map(|push| checked(push.job(&self.ids))).collect();
        let since = self.clock.now();
        let answers = self.store.enqueue(&jobs).await;
        let now = self.clock.since(since);
        legal!(answers.len() == jobs.len(), "{} answers to {} jobs", answers.len(), jobs.len());
        for ((push, job), answer) in pushes.iter().zip(jobs).zip(answers) {
            let answer = answer.map_err(|error| format!("push failed: {error}"))?;
            let stored = self.jobs.get(&job.job_ref());
            let holder = self.key_holder(&job);
            let fits = match (answer, stored, holder) {
                (Pushed::Duplicate(state), Some(stored), _) => stored.may_be(state, now),
                (Pushed::KeyHeld(id, state), None, Some(holder)) => {
                    holder.job.id == id && holder.may_be(state, now)
                }
                (Pushed::Stored, None, None) => true,
                _ => false,
            };
            legal!(
                fits,
                "push of {} answered {answer:?}; stored {stored:?}, key held by {holder:?}",
                job.job_ref()
            );
            if answer == Pushed::Stored {
                let reference = job.job_ref();
                self.jobs.insert(reference, Known::pushed(job.into_job(), push.delay, now));
            }
        }
        Ok(())
    }

    async fn reserve(&mut self, request: Reserve, again: Option<usize>) -> Verdict {
        let since = self.clock.now();
        let answer = self.store.reserve(&request).await;
        let now = self.clock.since(since);
        let answer = answer.map_err(|error| format!("reserve failed: {error}"))?.deliveries;
        if let Some(which) = again.filter(|which| !self.reserves[*which].1.is_empty()) {
            return self.repeated(&request, &self.reserves[which].1.clone(), &answer, now);
        }
        legal!(answer.len() <= request.most(), "{} for {}", answer.len(), request.most());
        let before = self.jobs.clone();
        let mut taken = BTreeSet::new();
        for delivery in &answer {
            self.delivered(&request, delivery, now)?;
            taken.insert(delivery.claim.job.clone());
        }
        let left = before.iter().filter(|(job, known)| {
            !taken.contains(*job) && self.must_deliver(&request, known, now)
        });
        for (job, left) in left {
            legal!(answer.len() == request.most(), "{job} is due and was left in line: {left:?}");
            for taken in taken.iter().filter(|taken| taken.tenant == job.tenant) {
                let taken = &before[taken];
                let (first, second) = (left.job.priority, taken.job.priority);
                let overtaken = first > second || first == second && left.due.before(taken.due);
                legal!(!overtaken, "{job} was overtaken by {taken:?}: {left:?}");
            }
        }
        let claims: Vec<_> = answer.into_iter().map(|delivery| delivery.claim).collect();
        self.claims.extend(claims.iter().cloned());
        match again {
            Some(which) => self.reserves[which].1 = claims,
            None => self.reserves.push((request, claims)),
        }
        Ok(())
    }

    /// The first call took something: the same is answered, as far as it is still held.
    fn repeated(
        &mut self,
        request: &Reserve,
        first: &[Claim],
        answer: &[Delivery],
        now: Time,
    ) -> Verdict {
        let held = |claim: &&Claim| {
            let known = self.jobs.get(&claim.job);
            known.is_some_and(|known| known.standing(claim, now) == Standing::Held)
        };
        let held: BTreeSet<_> = first.iter().filter(held).map(|claim| claim.job.clone()).collect();
        let answered: BTreeSet<_> = answer.iter().map(|d| d.claim.job.clone()).collect();
        legal!(answered == held, "repeated reserve answered {answered:?}, held are {held:?}");
        for delivery in answer {
            legal!(first.contains(&delivery.claim), "repeated reserve made {:?}", delivery.claim);
            let known = self.jobs.get_mut(&delivery.claim.job);
            let Some(lease) = known.and_then(|known| known.lease.as_mut()) else { continue };
            lease.hi = now.after(request.leased_for().length()).hi;
        }
        Ok(())
    }

    fn delivered(&mut self, request: &Reserve, delivery: &Delivery, now: Time) -> Verdict {
        let Delivery { claim, job, attempt, suspect } = delivery;
        let paused = self.paused(&job.queue, &job.tenant, now);
        let Some(known) = self.jobs.get_mut(&claim.job) else {
            return Err(format!("{} was delivered and is not stored", claim.job));
        };
        let may = known.steps(Event::Reserve, now).contains(&Step::To(State::Running));
        legal!(
            may && paused != Some(true),
            "{} was delivered, paused {paused:?}: {known:?}",
            claim.job
        );
        legal!(known.job.queue == request.queue(), "{} is of another queue", claim.job);
        legal!(request.names().contains(&known.job.name), "{} has an unknown name", claim.job);
        let same = Job { run_at: known.job.run_at, ..job.clone() };
        legal!(same == known.job, "{same:?} was delivered, {:?} was pushed", known.job);
        legal!(same.payload.as_str() == known.job.payload.as_str(), "another payload");
        legal!(claim.nonce == request.nonce_of(), "{claim:?} has another nonce");
        legal!(claim.fence > known.fence, "{claim:?}: the fence was {}", known.fence);
        legal!(*attempt == known.attempt + 1, "attempt {attempt} after {}", known.attempt);
        legal!(known.suspect.is_none_or(|is| is == *suspect), "suspect {suspect}: {known:?}");
        known.goes_to(State::Running, now);
        known.lease = Some(now.after(request.leased_for().length()));
        (known.attempt, known.fence, known.suspect) = (*attempt, claim.fence, Some(*suspect));
        (known.claim, known.settled) = (Some(claim.clone()), None);
        known.moved_since = false;
        Ok(())
    }

    fn must_deliver(&self, request: &Reserve, known: &Known, now: Time) -> bool {
        let waits =
            known.steps(Event::Reserve, now).iter().all(|step| *step == Step::To(State::Running));
        let job = &known.job;
        waits
            && job.queue == request.queue()
            && request.names().contains(&job.name)
            && self.paused(&job.queue, &job.tenant, now) == Some(false)
    }

    async fn renew(&mut self, claim: Claim) -> Verdict {
        let since = self.clock.now();
        let answer = self.store.renew(Lease::default(), std::slice::from_ref(&claim)).await;
        let now = self.clock.since(since);
        let answer = answer.map_err(|error| format!("renew failed: {error}"))?;
        let known = self.jobs.get_mut(&claim.job);
        let standing = known.as_ref().map_or(Standing::Stale, |known| known.standing(&claim, now));
        let legal = match &known {
            Some(known) if standing == Standing::Held && known.cancel_requested => {
                Renewed::CancelRequested
            }
            Some(_) if standing == Standing::Held => Renewed::Held,
            _ => Renewed::Lost,
        };
        legal!(answer == [legal], "renew of {claim:?} answered {answer:?}, not {legal:?}");
        if let (Some(known), Standing::Held) = (known, standing) {
            known.lease = Some(now.after(Lease::default().length()));
        }
        Ok(())
    }

    async fn settle(&mut self, batch: &[(usize, Outcome)]) -> Verdict {
        let settlement = |(claim, outcome): &(usize, Outcome)| Settlement {
            claim: self.claim(*claim),
            outcome: outcome.clone(),
        };
        let batch: Vec<_> = batch.iter().map(settlement).collect();
        let since = self.clock.now();
        let answers = self.store.settle(&batch).await;
        let now = self.clock.since(since);
        let answers = answers.map_err(|error| format!("settle failed: {error}"))?;
        legal!(answers.len() == batch.len(), "{} answers to {}", answers.len(), batch.len());
        for (settlement, answer) in batch.iter().zip(answers) {
            self.settled(settlement, answer, now)?;
        }
        Ok(())
    }

    fn settled(&mut self, settlement: &Settlement, answer: Settled, now: Time) -> Verdict {
        let Settlement { claim, outcome } = settlement;
        let Some(known) = self.jobs.get_mut(&claim.job) else {
            legal!(answer == Settled::Lost, "settling an unknown job answered {answer:?}");
            return Ok(());
        };
        let standing = known.standing(claim, now);
        let fits = match standing {
            Standing::Stale => answer == Settled::Lost,
            Standing::Settled(kind, told) => {
                told != Some(false) && answer == Settled::AlreadyApplied(kind)
                    || told != Some(true) && answer == Settled::Lost
            }
            Standing::Held => {
                matches!(answer, Settled::Applied(to) if known.steps(outcome.event(), now).contains(&Step::To(to)))
            }
        };
        legal!(fits, "{outcome:?} by {claim:?} answered {answer:?}, it is {standing:?}: {known:?}");
        let Settled::Applied(state) = answer else { return Ok(()) };
        known.goes_to(state, now);
        known.settled = Some(outcome.kind());
        if let Some(delay) = outcome.delay() {
            known.due = now.after(delay);
        }
        match outcome {
            Outcome::Snooze { .. } => {
                (known.snoozes, known.attempt) = (known.snoozes + 1, known.attempt - 1)
            }
            Outcome::Release => {
                (known.releases, known.attempt) = (known.releases + 1, known.attempt - 1)
            }
            _ => {
                known.suspect = Some(false);
                known.recorded = (known.recorded.0 + 1, known.recorded.1 + 1);
            }
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Verdict {
        let since = self.clock.now();
        let swept = self.store.sweep().await.map_err(|error| format!("sweep failed: {error}"))?;
        let now = self.clock.since(since);
        for lost in &swept.lost {
            let Some(known) = self.jobs.get_mut(&lost.job) else {
                return Err(format!("{lost:?} is not stored"));
            };
            let may = known.steps(Event::LoseLease, now).contains(&Step::To(lost.state));
            legal!(may, "{lost:?} was swept: {known:?}");
            let said = (&lost.queue, &lost.name, lost.attempt);
            legal!(
                said == (&known.job.queue, &known.job.name, known.attempt),
                "{lost:?}: {known:?}"
            );
            known.loses(lost.state, now);
        }
        let silent = |known: &Known| {
            let expired = known.lease.and_then(|lease| lease.has_passed(now));
            known.state == State::Running && expired == Some(true)
        };
        let left = self.jobs.values().find(|known| silent(known));
        legal!(swept.more || left.is_none(), "not swept: {left:?}");
        Ok(())
    }
}
