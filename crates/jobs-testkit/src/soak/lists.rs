//! The store's lists and counts, against its jobs one by one, at rest: a list by state, by queue, by
//! tenant or by all three has an index of its own, and a count is kept by itself.

use std::collections::{BTreeMap, BTreeSet};

use jobs_core::{
    Admin, JobRef, State, Timestamp,
    view::{Counts, Lanes, List},
};

use super::{probe::walk, store::Kept};
use crate::kit::operator;

/// Jobs told of one list.
const TOLD: usize = 3;
/// Of the last hour, by minutes: what is surely in it, in seconds.
const HOUR: i64 = 58 * 60;

/// What differs, and of which job.
pub async fn differ(
    store: &dyn Admin,
    jobs: &BTreeMap<JobRef, Kept>,
) -> Vec<(Option<JobRef>, String)> {
    let mut found = Vec::new();
    for (list, what) in lists(jobs) {
        let views = walk(store, list.clone()).await;
        let listed: Vec<JobRef> = views.iter().map(|view| view.job.job_ref()).collect();
        found.extend(differs(&list, &what, &listed, jobs));
    }
    let answer = store.counts(&operator().await, &Lanes::default()).await;
    let now = store.check(&operator().await).await.map(|check| check.now);
    if let (Ok(counts), Ok(now)) = (answer, now) {
        found.extend(counted(&counts, now, jobs).into_iter().map(|what| (None, what)));
    }
    found
}

/// The whole; each state, queue and tenant; and each of all three in which there are jobs.
fn lists(jobs: &BTreeMap<JobRef, Kept>) -> Vec<(List, String)> {
    let mut places: BTreeSet<(Option<State>, Option<&str>, Option<&str>)> = BTreeSet::new();
    places.insert((None, None, None));
    places.extend(State::ALL.map(|state| (Some(state), None, None)));
    for (job, kept) in jobs {
        let (state, queue, tenant) = (kept.state, kept.queue.as_str(), job.tenant.as_str());
        places.insert((None, Some(queue), None));
        places.insert((None, None, Some(tenant)));
        places.insert((Some(state), Some(queue), Some(tenant)));
    }
    let list = |(state, queue, tenant): (Option<State>, Option<&str>, Option<&str>)| {
        let what = format!("the list of {state:?} {queue:?} {tenant:?}");
        let [queue, tenant] = [queue, tenant].map(|place| place.map(str::to_owned));
        (List { state, queue, tenant, page: 1000, ..List::default() }, what)
    };
    places.into_iter().map(list).collect()
}

fn differs(
    list: &List,
    what: &str,
    listed: &[JobRef],
    jobs: &BTreeMap<JobRef, Kept>,
) -> Vec<(Option<JobRef>, String)> {
    let within = |(job, kept): &(&JobRef, &Kept)| {
        list.state.is_none_or(|state| kept.state == state)
            && list.queue.as_ref().is_none_or(|queue| kept.queue == *queue)
            && list.tenant.as_ref().is_none_or(|tenant| job.tenant == *tenant)
    };
    let own: BTreeSet<&JobRef> = jobs.iter().filter(within).map(|(job, _)| job).collect();
    let mut seen = BTreeSet::new();
    let twice: Vec<&JobRef> = listed.iter().filter(|job| !seen.insert(*job)).collect();
    let missing: Vec<&JobRef> = own.difference(&seen).copied().collect();
    let beyond: Vec<&JobRef> = seen.difference(&own).copied().collect();
    let told = |which: &[&JobRef], how: &str| -> Vec<(Option<JobRef>, String)> {
        let number = which.len();
        let told = which.iter().take(TOLD);
        told.map(|job| (Some((*job).clone()), format!("{how} {what}, as {number} are"))).collect()
    };
    [told(&missing, "not in"), told(&twice, "twice in"), told(&beyond, "it is not of")].concat()
}

/// Where a count is not the number of jobs.
fn counted(counts: &Counts, now: Timestamp, jobs: &BTreeMap<JobRef, Kept>) -> Vec<String> {
    let mut parked: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let (mut done, since) = (0, now.as_second() - HOUR);
    for (job, kept) in jobs {
        if kept.state == State::Parked {
            *parked.entry((&kept.queue, &job.tenant)).or_default() += 1;
        }
        let lately = kept.finished_at.is_some_and(|at| at.as_second() >= since);
        done += u64::from(kept.state == State::Done && lately);
    }
    let mut found = Vec::new();
    for lane in &counts.lanes {
        let (queue, tenant) = (lane.queue.as_str(), lane.tenant.as_str());
        let number = parked.remove(&(queue, tenant)).unwrap_or_default();
        let said = lane.parked;
        if said.number != number && !said.or_more {
            found.push(format!("{queue}/{tenant}: {said} parked are counted, and {number} are"));
        }
    }
    if counts.complete {
        let left = parked.iter().map(|((queue, tenant), number)| {
            format!("{queue}/{tenant} is not counted, and {number} are parked there")
        });
        found.extend(left);
    }
    let finished: u64 = counts.minutes.iter().map(|minute| minute.finished).sum();
    if finished < done {
        found.push(format!("{finished} are counted as finished, and {done} are done"));
    }
    found
}

#[cfg(test)]
mod tests {
    use jobs_core::{Outcome, Settlement};

    use super::*;
    use crate::{
        kit::{job, push, take_one},
        model::Model,
        soak::probe::get,
    };

    /// A parked, a done and a ready job, in a store.
    async fn three(store: &dyn Admin) -> BTreeMap<JobRef, Kept> {
        let mut jobs = BTreeMap::new();
        for outcome in [Some(Outcome::Park { cause: "x".into() }), Some(Outcome::Done), None] {
            let job = push(store, job("acme")).await.job_ref();
            if let Some(outcome) = outcome {
                let claim = take_one(store).await.claim;
                store.settle(&[Settlement { claim, outcome }]).await.unwrap();
            }
            let kept = Kept::from(get(store, &job).await.unwrap());
            jobs.insert(job, kept);
        }
        jobs
    }

    #[tokio::test]
    async fn what_lists_and_counts_say_is_what_is() {
        let store = Model::alone();
        let mut jobs = three(&store).await;
        assert_eq!(differ(&store, &jobs).await, []);
        let parked = jobs.iter().find(|(_, kept)| kept.state == State::Parked);
        let (job, mut kept) = parked.map(|(job, kept)| (job.clone(), kept.clone())).unwrap();
        let told = |found: Vec<(Option<JobRef>, String)>| -> Vec<String> {
            found.into_iter().map(|(_, what)| what).collect()
        };
        // By its id it is elsewhere.
        kept.state = State::Cancelled;
        jobs.insert(job.clone(), kept.clone());
        let found = told(differ(&store, &jobs).await).join("; ");
        for what in ["not in the list of Some(Cancelled)", "it is not of the list of Some(Parked)"]
        {
            assert!(found.contains(what), "{found}");
        }
        assert!(found.contains("1 parked are counted, and 0 are"), "{found}");
        jobs.remove(&job);
        let found = told(differ(&store, &jobs).await).join("; ");
        assert!(found.contains("it is not of the list of None None None"), "{found}");
        kept.state = State::Done;
        kept.finished_at = jobs.values().find_map(|kept| kept.finished_at);
        jobs.insert(job, kept);
        let found = told(differ(&store, &jobs).await).join("; ");
        assert!(found.contains("1 are counted as finished, and 2 are done"), "{found}");
    }

    #[test]
    fn a_job_is_listed_once() {
        let job = JobRef { tenant: "acme".into(), id: jobs_core::JobId::new() };
        let twice = [job.clone(), job];
        let found = differs(&List::default(), "the list", &twice, &BTreeMap::new());
        assert!(found.iter().any(|(_, what)| what.contains("twice in the list")), "{found:?}");
    }
}
