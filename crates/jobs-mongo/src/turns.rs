//! Whose turn it is (R5): start-time fair queueing by name, as in the contract's model
//! (`crates/jobs-testkit/src/model/lanes.rs`), shared by all processes.
//!
//! The turns of a queue are one document with a version. Who decides writes its charges where the
//! version is still the one that it read; else somebody else decided meanwhile, and it decides again.
//! Acknowledged by the primary alone: turns that a failover loses are an unfairness of one moment.

use std::collections::{HashMap, HashSet};

use jobs_core::queue::LANE_BATCH;
use mongodb::bson::{Bson, Document, doc};

use crate::row::int;

/// One delivery's cost at weight 1.
const UNIT: i64 = 1 << 20;
/// Lanes remembered of one name: those without a lag and longest without a visit go first, and come
/// back at the place where they were.
const REMEMBERED: usize = 2000;

/// When a lane's last visit ended in virtual time, and the number of that visit.
type Charge = (i64, i64);

/// One name's virtual now, and how far each lane was served.
#[derive(Clone, Debug, Default)]
struct Clock {
    now: i64,
    lanes: HashMap<String, Charge>,
}

/// Of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// 0 where there is no document.
    pub version: i64,
    visits: i64,
    names: HashMap<String, Clock>,
    /// What was charged since it was read.
    changed: HashSet<(String, String)>,
}

impl Turns {
    pub fn read(row: &Document) -> Self {
        let names = row.get_document("names").into_iter().flatten();
        let names = names.filter_map(|(field, name)| {
            let name = name.as_document()?;
            let lanes = name.get_document("lanes").into_iter().flatten();
            let lanes = lanes.filter_map(|(tenant, charge)| match charge.as_array()?.as_slice() {
                [Bson::Int64(finish), Bson::Int64(visit)] => {
                    Some((tenant.clone(), (*finish, *visit)))
                }
                _ => None,
            });
            let now = int(name, "now").unwrap_or_default();
            Some((field.replace('/', "."), Clock { now, lanes: lanes.collect() }))
        });
        Self {
            version: int(row, "version").unwrap_or_default(),
            visits: int(row, "visits").unwrap_or_default(),
            names: names.collect(),
            changed: HashSet::new(),
        }
    }

    /// The lane's least lag among these names, and its last visit there.
    pub fn turn<'n>(&self, tenant: &str, names: impl Iterator<Item = &'n str>) -> (i64, i64) {
        let at = |name| {
            let clock = self.names.get(name)?;
            let (finish, visit) = clock.lanes.get(tenant).copied().unwrap_or_default();
            Some((finish.saturating_sub(clock.now).max(0), visit))
        };
        names.map(|name| at(name).unwrap_or_default()).min().unwrap_or_default()
    }

    /// Charges a visit to a lane of this lag at the contested names.
    pub fn charge(
        &mut self,
        tenant: &str,
        contested: &[&str],
        lag: i64,
        taken: usize,
        weight: u32,
    ) {
        self.visits += 1;
        let cost = |taken: usize| taken as i64 * UNIT / i64::from(weight.max(1));
        for name in contested {
            let clock = self.names.entry((*name).to_owned()).or_default();
            let (finish, visit) = clock.lanes.entry(tenant.to_owned()).or_default();
            let start = (*finish).max(clock.now);
            (*finish, *visit) = (start.saturating_add(cost(taken)), self.visits);
            let last_batch = finish.saturating_sub(cost(LANE_BATCH));
            clock.now = clock.now.saturating_add(lag).max(start).max(last_batch);
            self.changed.insert(((*name).to_owned(), tenant.to_owned()));
        }
    }

    /// Is there anything to write?
    pub fn is_charged(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The statement that writes what was charged, if nobody else did meanwhile.
    pub fn statement(&mut self, queue: &str) -> Document {
        let (mut set, mut unset) = (doc! { "visits": self.visits }, Document::new());
        let names: HashSet<_> = self.changed.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            // A name may have a dot, which is a path, and has no slash.
            let path = format!("names.{}", name.replace('.', "/"));
            let Some(clock) = self.names.get_mut(&name) else { continue };
            set.insert(format!("{path}.now"), clock.now);
            let mut forgotten = Vec::new();
            if clock.lanes.len() > REMEMBERED {
                let now = clock.now;
                let idle = clock.lanes.iter().filter(|(_, (finish, _))| *finish <= now);
                let mut idle: Vec<_> = idle.map(|(t, (_, visit))| (*visit, t.clone())).collect();
                idle.sort_unstable();
                idle.truncate(clock.lanes.len() - REMEMBERED);
                forgotten.extend(idle.into_iter().map(|(_, tenant)| tenant));
            }
            for tenant in forgotten {
                clock.lanes.remove(&tenant);
                unset.insert(format!("{path}.lanes.{tenant}"), "");
            }
            for (tenant, (finish, visit)) in &clock.lanes {
                if self.changed.contains(&(name.clone(), tenant.clone())) {
                    set.insert(format!("{path}.lanes.{tenant}"), vec![*finish, *visit]);
                }
            }
        }
        let mut update = doc! { "$set": set, "$inc": { "version": 1_i64 } };
        if !unset.is_empty() {
            update.insert("$unset", unset);
        }
        // The first one makes the document; a second first one meets its `_id`.
        let mut filter = doc! { "_id": queue };
        let first = self.version == 0;
        filter.insert("version", if first { Bson::Int64(0) } else { self.version.into() });
        doc! { "q": filter, "u": update, "upsert": first }
    }

    /// It is written.
    pub fn written(&mut self) {
        self.version += 1;
        self.changed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_without_a_visit_is_next_and_a_visit_costs_by_weight() {
        let mut turns = Turns::default();
        let turn = |turns: &Turns, tenant| turns.turn(tenant, ["x.y"].into_iter());
        for tenant in ["a", "b"] {
            let (lag, _) = turn(&turns, tenant);
            turns.charge(tenant, &["x.y"], lag, 8, if tenant == "a" { 1 } else { 4 });
        }
        assert!(turn(&turns, "new") < turn(&turns, "b") && turn(&turns, "b") < turn(&turns, "a"));
        let statement = turns.statement("q");
        let set = statement.get_document("u").and_then(|u| u.get_document("$set"));
        assert!(set.is_ok_and(|set| set.contains_key("names.x/y.lanes.a")), "{statement}");
    }
}
