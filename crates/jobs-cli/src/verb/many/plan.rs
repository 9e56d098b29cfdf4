//! Which jobs match a filter: counted first, for the question, and only those touched then.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use jobs_core::{Admin, JobRef, Permit, State, permit::Read, view::List};

use super::{Change, NAMED, account::Account};
use crate::{command::Filter, stop::Stop, text::count, verb::Session};

/// The jobs that matched when somebody was asked.
pub(super) struct Plan {
    /// One list for each state, so that none walks through history for nothing.
    lists: Vec<List>,
    jobs: HashSet<JobRef>,
    kinds: BTreeMap<(State, String, String), u64>,
}

impl Plan {
    /// Walks all that match.
    pub async fn count<A: Admin>(
        session: &Session<A>,
        permit: &Permit<Read>,
        filter: &Filter,
        states: &[State],
    ) -> Result<Self, Stop> {
        let lists =
            states.iter().map(|state| List { state: Some(*state), ..session.list_of(filter) });
        let lists: Vec<_> = lists.collect();
        let (mut jobs, mut kinds) = (HashSet::new(), BTreeMap::new());
        let bar = spinner();
        for list in &lists {
            let walk = session.walk(permit, list.clone(), async |page| {
                for view in page.jobs {
                    if jobs.insert(view.job.job_ref()) {
                        let kind = (view.state, view.job.queue, view.job.name);
                        *kinds.entry(kind).or_default() += 1;
                    }
                }
                bar.set_position(jobs.len() as u64);
                Ok(())
            });
            walk.await?;
        }
        bar.finish_and_clear();
        Ok(Self { lists, jobs, kinds })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// A line for each state, name and queue.
    pub fn in_lines(&self) -> String {
        let kinds = self.kinds.iter().take(NAMED);
        let lines = kinds.map(|((state, queue, name), number)| {
            format!("  {} of {name} in queue {queue}", count(*number, &format!("{state} job")))
        });
        let mut lines: Vec<_> = lines.collect();
        if self.kinds.len() > NAMED {
            lines.push(format!("  and {} more kinds", self.kinds.len() - NAMED));
        }
        lines.join("\n")
    }

    /// Changes those of them that still match, each page right after a look at it; answers how many
    /// did not match any more.
    pub async fn touch<C: Change, A: Admin>(
        mut self,
        session: &Session<A>,
        (read, permit): (&Permit<Read>, &Permit<C::Verb>),
        account: &mut Account,
    ) -> Result<u64, Stop> {
        let jobs = &mut self.jobs;
        for list in self.lists {
            let walk = session.walk(read, list, async |page| {
                let found = page.jobs.iter().map(|view| view.job.job_ref());
                let found: Vec<_> = found.filter(|job| jobs.remove(job)).collect();
                account.apply::<C, A>(session, permit, &found).await
            });
            walk.await?;
        }
        Ok(jobs.len() as u64)
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} jobs match") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use jobs_core::QueueExt;
    use jobs_testkit::kit;

    use super::*;
    use crate::verb::{delete::Delete, model};

    /// Between the question and the answer one job leaves the filter and another comes.
    #[tokio::test]
    async fn only_what_was_counted_and_still_matches_is_touched() {
        let session = model::operator().await;
        let store = &session.store;
        let mut parked = Vec::new();
        let mut park = async || {
            let job = kit::push(store, kit::job("acme")).await;
            let held = kit::take_one(store).await;
            store.park(&held.claim, "why".into()).await.unwrap();
            parked.push(job.job_ref());
        };
        for _ in 0..3 {
            park().await;
        }
        let read = session.access.permit().await.unwrap();
        let permit = session.access.permit().await.unwrap();
        let filter = Filter { state: Some(State::Parked), ..Filter::default() };
        let plan = Plan::count(&session, &read, &filter, &[State::Parked]).await.unwrap();
        assert_eq!(
            (plan.len(), plan.in_lines().as_str()),
            (3, "  3 parked jobs of noop in queue work")
        );

        // Now somebody reads the question.
        park().await;
        let retry = session.access.permit().await.unwrap();
        store.retry(&retry, &parked[..1]).await.unwrap();

        let mut account = Account::new("delete", plan.len());
        let moved =
            plan.touch::<Delete, _>(&session, (&read, &permit), &mut account).await.unwrap();
        assert_eq!((account.sum.changed, moved), (2, 1));
        let mut left = Vec::new();
        for job in &parked {
            let record = store.get(&read, job).await.unwrap();
            left.push(record.map(|record| record.view.state));
        }
        assert_eq!(left, [Some(State::Ready), None, None, Some(State::Parked)]);
    }
}
