//! What a history consists of. References are by number, so that a history stays playable when
//! operations are left out: a claim is the n-th one taken so far, modulo how many there are.

use std::{fmt, time::Duration};

use fastrand::Rng;
use jobs_core::{Cause, Job, JobId, KeyScope, Outcome, Payload, admin::Pause};

use crate::kit;

/// Whose jobs they are.
pub const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
/// Where they wait.
pub const QUEUES: [&str; 2] = ["work", "mail"];
/// What they are called.
pub const NAMES: [&str; 3] = ["noop", "send", "bill"];
/// How many ids there are.
pub const IDS: usize = 5;
/// Texts that a store must not rewrite.
const PAYLOADS: [&str; 4] =
    ["null", " {\"b\": 1, \"a\": 1e2}", "9223372036854775807", r#""\u0000""#];

/// One operation.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the verb of that name")]
pub enum Op {
    Push(Vec<Push>),
    Reserve {
        queue: usize,
        names: Vec<&'static str>,
        slots: usize,
    },
    /// The n-th reserve so far, with its nonce.
    ReserveAgain(usize),
    Renew {
        claim: usize,
    },
    Settle(Vec<(usize, Outcome)>),
    Sweep,
    Age(Duration),
    Retry(Target),
    Cancel(Target),
    /// The job of the n-th newest claim, by an operator.
    CancelClaimed(usize),
    Delete(Target),
    /// A list and the counts, in one tenant's scope or in all.
    Look(Option<usize>),
    Pause {
        queue: usize,
        tenant: Option<usize>,
        pause: Pause,
    },
}

/// A job to push.
#[derive(Clone)]
pub struct Push {
    pub tenant: usize,
    pub id: usize,
    pub queue: usize,
    pub name: usize,
    pub priority: i16,
    pub max_attempts: u32,
    pub delay: Duration,
    pub key: Option<(KeyScope, usize)>,
    pub payload: usize,
}

/// A job an operator acts on: `by` a tenant's permit, or over all tenants.
#[derive(Clone)]
pub struct Target {
    pub by: Option<usize>,
    pub tenant: usize,
    pub id: usize,
}

impl Op {
    /// Any one.
    pub fn random(random: &mut Rng) -> Self {
        match random.u8(0..100) {
            0..24 => Self::Push((0..random.usize(1..4)).map(|_| Push::random(random)).collect()),
            24..46 => {
                let mut names = NAMES.to_vec();
                random.shuffle(&mut names);
                names.truncate(random.usize(1..=NAMES.len()));
                let slots = random.usize(1..5);
                Self::Reserve { queue: random.usize(..QUEUES.len()), names, slots }
            }
            46..50 => Self::ReserveAgain(random.usize(..100)),
            50..56 => Self::Renew { claim: newest(random) },
            56..73 => {
                let one = |random: &mut Rng| (newest(random), outcome(random));
                let mut batch: Vec<_> = (0..random.usize(1..4)).map(|_| one(random)).collect();
                if random.u8(0..5) == 0 {
                    batch.push((batch[0].0, outcome(random)));
                }
                Self::Settle(batch)
            }
            73..78 => Self::Sweep,
            78..85 => Self::Age(Duration::from_secs(random.choice([7, 25, 25, 130]).unwrap_or(7))),
            85..89 => Self::Retry(Target::random(random)),
            89..91 => Self::CancelClaimed(random.usize(..3)),
            91..94 => Self::Cancel(Target::random(random)),
            94..96 => Self::Delete(Target::random(random)),
            96..98 => Self::Look(random.bool().then(|| random.usize(..TENANTS.len()))),
            _ => {
                let pause =
                    [Pause::Off, Pause::On, Pause::For(Duration::from_secs(40)), Pause::Off];
                let pause = random.choice(pause).unwrap_or(Pause::Off);
                let tenant = random.bool().then(|| random.usize(..TENANTS.len()));
                Self::Pause { queue: random.usize(..QUEUES.len()), tenant, pause }
            }
        }
    }
}

impl Op {
    /// The same with one element less, where it is a batch of several.
    pub fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Push(batch) => shorter(batch).into_iter().map(Self::Push).collect(),
            Self::Settle(batch) => shorter(batch).into_iter().map(Self::Settle).collect(),
            _ => Vec::new(),
        }
    }
}

fn shorter<T: Clone>(batch: &[T]) -> Vec<Vec<T>> {
    let without = |left_out: usize| {
        let (before, after) = (&batch[..left_out], &batch[left_out + 1..]);
        [before, after].concat()
    };
    if batch.len() < 2 { Vec::new() } else { (0..batch.len()).map(without).collect() }
}

/// Mostly one of the last claims: counted from the newest.
fn newest(random: &mut Rng) -> usize {
    if random.u8(0..3) > 0 { random.usize(..4) } else { random.usize(..40) }
}

fn outcome(random: &mut Rng) -> Outcome {
    let after = Duration::from_secs(random.choice([0, 15, 60]).unwrap_or(0));
    let cause = Cause::new("no");
    match random.u8(0..8) {
        0..2 => Outcome::Done,
        2..4 => Outcome::Retry { after, cause },
        4 => Outcome::Park { cause },
        5 => Outcome::Snooze { after },
        6 => Outcome::Release,
        _ => Outcome::Cancelled { cause },
    }
}

impl Push {
    fn random(random: &mut Rng) -> Self {
        let scope = if random.bool() { KeyScope::UntilFinished } else { KeyScope::UntilStarted };
        Self {
            tenant: random.usize(..TENANTS.len()),
            id: random.usize(..IDS),
            queue: usize::from(random.u8(0..5) == 0),
            name: random.usize(..NAMES.len()),
            priority: random.choice([-5, 0, 0, 0, 7]).unwrap_or(0),
            max_attempts: random.u32(1..4),
            delay: Duration::from_secs(random.choice([0, 0, 0, 30]).unwrap_or(0)),
            key: random.bool().then(|| (scope, random.usize(..2))),
            payload: random.usize(..PAYLOADS.len()),
        }
    }

    /// As a job.
    pub fn job(&self, ids: &[JobId]) -> Job {
        let mut job = kit::job(TENANTS[self.tenant]).on(QUEUES[self.queue]).priority(self.priority);
        job.id = ids[self.id];
        NAMES[self.name].clone_into(&mut job.name);
        job.payload = Payload::from_json(PAYLOADS[self.payload]).expect("each is JSON");
        job = job.max_attempts(self.max_attempts).meta("id", self.id.to_string());
        if !self.delay.is_zero() {
            job = job.after(self.delay);
        }
        match self.key {
            None => job,
            Some((KeyScope::UntilFinished, key)) => job.key(format!("key {key}")),
            Some((KeyScope::UntilStarted, key)) => job.key_until_started(format!("key {key}")),
        }
    }
}

impl Target {
    fn random(random: &mut Rng) -> Self {
        let (tenant, id) = (random.usize(..TENANTS.len()), random.usize(..IDS));
        let by = (random.u8(0..3) > 0)
            .then(|| if random.u8(0..4) == 0 { random.usize(..TENANTS.len()) } else { tenant });
        Self { by, tenant, id }
    }
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [tenant, queue] = [TENANTS[self.tenant], QUEUES[self.queue]];
        write!(f, "{tenant}/{} {} on {queue}", self.id, NAMES[self.name])?;
        write!(f, ", priority {}, {} attempts", self.priority, self.max_attempts)?;
        write!(f, ", due in {:?}, payload {}", self.delay, PAYLOADS[self.payload])?;
        self.key.map_or(Ok(()), |(scope, key)| write!(f, ", key {key} {scope:?}"))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.by.map_or("operator", |by| TENANTS[by]);
        write!(f, "{}/{} by {by}", TENANTS[self.tenant], self.id)
    }
}
