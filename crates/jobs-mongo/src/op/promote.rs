//! What comes due is put in line: by the reserves that see it, and by sweeps.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, doc};

use super::{
    pick::Wish,
    reserve::Call,
    survey::{UNIONS, head, heads, union},
};
use crate::{
    Mongo,
    error::Fault,
    frontier::{Known, Line},
    row::at,
};

/// Lines of which one reserve puts jobs in line.
const LINES: usize = 2 * UNIONS;

impl Call<'_> {
    /// Scheduled lines that this wish may take from, with when they are due.
    fn scheduled<'k>(
        &'k self,
        known: &'k Known,
        wish: &'k Wish<'_>,
        now: i64,
    ) -> impl Iterator<Item = (&'k Line, i64)> {
        let of_it = move |line: &Line| {
            self.request.names().binary_search(&line.name).is_ok()
                && known.settings.paused_until(&line.tenant, now).is_none()
        };
        // They sort before those in line.
        let lines = known.lines.iter().take_while(|(line, _)| !line.ready);
        // One that may not be taken now is no reason to ask again.
        let lines = lines.filter(move |(line, due)| of_it(line) && (**due > now || wish.may(line)));
        lines.map(|(line, due)| (line, *due))
    }

    /// Has anything come due, as far as is known?
    pub(super) fn is_due(&self, known: &Known, wish: &Wish<'_>, now: Option<i64>) -> bool {
        now.is_some_and(|now| self.scheduled(known, wish, now).any(|(_, due)| due <= now))
    }

    /// When the next scheduled job is due.
    pub(super) fn next_due(&self, known: &Known, wish: &Wish<'_>) -> Option<i64> {
        self.scheduled(known, wish, self.now).map(|(_, due)| due).min()
    }

    /// Puts some of what is due in line: of the lanes that are next, each as many as the others, and
    /// in a lane by priority. The rest is left to the next reserve, because thousands of lanes may
    /// be due at one instant.
    pub(super) async fn promote(
        &mut self,
        known: &mut Known,
        wish: &Wish<'_>,
    ) -> Result<(), Fault> {
        let mut lanes = BTreeMap::<&str, Vec<&Line>>::new();
        for (line, due) in self.scheduled(known, wish, self.now) {
            if due <= self.now {
                lanes.entry(&line.tenant).or_default().push(line);
            }
        }
        let mut order: Vec<_> = lanes
            .into_iter()
            .map(|(tenant, mut lines)| {
                lines.sort_unstable_by(|a, b| a.rank.cmp(&b.rank));
                let names = lines.iter().map(|line| line.name.as_str());
                (known.turns.turn(tenant, names), lines)
            })
            .collect();
        order.sort_unstable();
        let lanes = order.len().clamp(1, LINES);
        let share = self.budget.div_ceil(lanes);
        let lines = order.into_iter().flat_map(|(_, lines)| lines).take(LINES);
        let lines: Vec<Line> = lines.cloned().collect();
        let (mut ids, mut taken) = (Vec::new(), BTreeMap::<&str, usize>::new());
        for part in lines.chunks(UNIONS) {
            // One more, to know when the next is due.
            let pipelines = part.iter().map(|line| heads(line, known, share + 1, false));
            let mut read = part.iter().map(|line| (line.clone(), Default::default())).collect();
            for row in &union(self.store, pipelines).await? {
                head(row, &mut read)?;
            }
            for line in part {
                let heads = read.remove(line).map(|read| read.heads).unwrap_or_default();
                let taken = taken.entry(&line.tenant).or_default();
                let left = share.saturating_sub(*taken).min(self.budget);
                let due = heads.iter().take(left).take_while(|(due, _)| *due <= self.now).count();
                *taken += due;
                self.budget -= due;
                match heads.get(due) {
                    Some((next, _)) => known.lines.insert(line.clone(), *next),
                    None => known.lines.remove(line),
                };
                if let Some((first, _)) = heads.first().filter(|_| due > 0) {
                    let place = known.lines.entry(Line { ready: true, ..line.clone() });
                    let place = place.or_insert(*first);
                    *place = (*place).min(*first);
                }
                ids.extend(heads.into_iter().take(due).map(|(_, id)| id));
            }
        }
        promote_all(self.store, ids, self.now).await?;
        Ok(())
    }
}

/// Puts these scheduled jobs in line, as far as they were due at `now` by the server's clock.
pub(crate) async fn promote_all(
    store: &Mongo,
    mut ids: Vec<String>,
    now: i64,
) -> Result<usize, Fault> {
    if ids.is_empty() {
        return Ok(0);
    }
    ids.sort_unstable();
    let ids: Vec<Bson> = ids.into_iter().map(Bson::String).collect();
    let statement = doc! {
        "q": { "_id": { "$in": ids }, "state": 0_i32, "run_at": { "$lte": at(now) } },
        "u": [{ "$set": { "state": 1_i32, "line": Line::expression(true), "cold": "$$REMOVE" } }],
        "multi": true,
    };
    Ok(store.db.update("jobs", vec![statement]).await?.count)
}
