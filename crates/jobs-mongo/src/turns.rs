//! Whose turn it is (R5): start-time fair queueing by name, as in the contract's model
//! (`crates/jobs-testkit/src/model/lanes.rs`), shared by all processes.
//!
//! The turns of a queue are one document with a version. Who decides writes its charges where the
//! version is still the one that it read; else somebody else decided meanwhile, and it decides again.
//! Acknowledged by the primary alone: turns that a failover loses are an unfairness of one moment.
//!
//! The document is bounded: of each name the lanes visited last. The others all have the same turn,
//! and among them it goes round by tenant, so that with more lanes than are remembered each still
//! has its turn before any has a second. Rejected: a document a lane, where one reserve reads and
//! writes as many as it has visits times names, and which no single version guards.

use std::collections::{HashMap, HashSet};

use jobs_core::queue::LANE_BATCH;
use mongodb::bson::{Bson, Document, doc};

use crate::row::{int, text};

/// One delivery's cost at weight 1.
const UNIT: i64 = 1 << 20;
/// Lanes remembered of all names of a queue together, some 60 bytes each.
const REMEMBERED: usize = 2048;
/// Of each name, however many names there are.
const LEAST: usize = 16;
/// A name at which nobody was visited for so many visits is forgotten.
const IDLE: i64 = 50_000;

/// The lane's lag, its last visit, and whether going round comes to it later than to others without
/// a visit: the least is next.
pub(crate) type Turn = (i64, i64, bool);

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
    /// Of the lanes without a visit, the last one visited.
    from: String,
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
            from: text(row, "from").unwrap_or_default(),
            names: names.collect(),
            changed: HashSet::new(),
        }
    }

    /// The lane's least lag among these names, and its last visit there.
    pub fn turn<'n>(&self, tenant: &str, names: impl Iterator<Item = &'n str>) -> Turn {
        let at = |name| {
            let clock = self.names.get(name)?;
            let (finish, visit) = clock.lanes.get(tenant).copied().unwrap_or_default();
            Some((finish.saturating_sub(clock.now).max(0), visit))
        };
        let least = names.map(|name| at(name).unwrap_or_default()).min();
        let (lag, visit) = least.unwrap_or_default();
        (lag, visit, visit == 0 && tenant <= self.from.as_str())
    }

    /// Charges a visit to a lane of this turn at the contested names.
    pub fn charge(
        &mut self,
        tenant: &str,
        contested: &[&str],
        (lag, visit, _): Turn,
        taken: usize,
        weight: u32,
    ) {
        self.visits += 1;
        if visit == 0 {
            tenant.clone_into(&mut self.from);
        }
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

    /// The statement that writes what was charged, if nobody else did meanwhile, or whatever others
    /// did `anyway`.
    pub fn statement(&mut self, queue: &str, anyway: bool) -> Document {
        let (mut set, mut most) = (doc! { "from": &self.from }, doc! { "visits": self.visits });
        let mut unset = Document::new();
        let each = (REMEMBERED / self.names.len().max(1)).max(LEAST);
        let mut changed = HashMap::<&str, Vec<&str>>::new();
        for (name, tenant) in &self.changed {
            changed.entry(name).or_default().push(tenant);
        }
        for (name, tenants) in changed {
            let path = path(name);
            let Some(clock) = self.names.get_mut(name) else { continue };
            most.insert(format!("{path}.now"), clock.now);
            for tenant in clock.beyond(each) {
                clock.lanes.remove(&tenant);
                unset.insert(format!("{path}.lanes.{tenant}"), "");
            }
            for tenant in tenants {
                if let Some((finish, visit)) = clock.lanes.get(tenant) {
                    set.insert(format!("{path}.lanes.{tenant}"), vec![*finish, *visit]);
                }
            }
        }
        let since = self.visits - IDLE;
        self.names.retain(|name, clock| {
            let idle = clock.lanes.values().all(|(_, visit)| *visit < since);
            if idle {
                unset.insert(path(name), "");
            }
            !idle
        });
        let mut update = doc! { "$set": set, "$max": most, "$inc": { "version": 1_i64 } };
        if !unset.is_empty() {
            update.insert("$unset", unset);
        }
        // The first one makes the document; a second first one meets its `_id`.
        let mut filter = doc! { "_id": queue };
        if !anyway {
            filter.insert("version", self.version);
        }
        doc! { "q": filter, "u": update, "upsert": anyway || self.version == 0 }
    }

    /// It is written; `anyway` with who knows what beside it.
    pub fn written(&mut self, anyway: bool) {
        self.version = if anyway { UNKNOWN } else { self.version + 1 };
        self.changed.clear();
    }
}

/// No document's version: the next reserve reads it.
const UNKNOWN: i64 = -1;

/// A name may have a dot, which is a path, and has no slash.
fn path(name: &str) -> String {
    format!("names.{}", name.replace('.', "/"))
}

impl Clock {
    /// The lanes to forget so that `most` stay: first those without a lag, and of all those longest
    /// without a visit.
    fn beyond(&self, most: usize) -> Vec<String> {
        let more = self.lanes.len().saturating_sub(most);
        if more == 0 {
            return Vec::new();
        }
        let lane = |(tenant, (finish, visit)): (&String, &Charge)| {
            (*finish > self.now, *visit, tenant.clone())
        };
        let mut lanes: Vec<_> = self.lanes.iter().map(lane).collect();
        lanes.sort_unstable();
        lanes.into_iter().take(more).map(|(.., tenant)| tenant).collect()
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
            let its = turn(&turns, tenant);
            turns.charge(tenant, &["x.y"], its, 8, if tenant == "a" { 1 } else { 4 });
        }
        assert!(turn(&turns, "new") < turn(&turns, "b") && turn(&turns, "b") < turn(&turns, "a"));
        let statement = turns.statement("q", false);
        let set = statement.get_document("u").and_then(|u| u.get_document("$set"));
        assert!(set.is_ok_and(|set| set.contains_key("names.x/y.lanes.a")), "{statement}");
    }
    #[test]
    fn more_lanes_than_are_remembered_have_one_turn_each() {
        let mut turns = Turns::default();
        let tenants: Vec<_> = (0..REMEMBERED + 100).map(|lane| format!("t{lane}")).collect();
        for round in 0..2 {
            let mut seen = HashSet::new();
            for visit in 0..tenants.len() {
                let turn = |turns: &Turns, tenant: &str| turns.turn(tenant, ["x"].into_iter());
                let next =
                    tenants.iter().min_by(|a, b| (turn(&turns, a), *a).cmp(&(turn(&turns, b), *b)));
                let next = next.expect("there are lanes");
                let its = turn(&turns, next);
                turns.charge(next, &["x"], its, 8, 1);
                if visit % 16 == 0 {
                    turns.statement("q", false);
                    turns.written(false);
                }
                assert!(seen.insert(next), "round {round}, visit {visit}: {next} again");
            }
        }
        turns.statement("q", false);
        assert_eq!(turns.names["x"].lanes.len(), REMEMBERED);
    }

    #[test]
    fn a_name_without_visits_is_forgotten() {
        let mut turns = Turns::default();
        for name in ["old", "new"] {
            turns.visits += IDLE;
            turns.charge("a", &[name], (0, 0, false), 1, 1);
        }
        turns.visits += 1;
        let statement = turns.statement("q", false);
        let unset = statement.get_document("u").and_then(|u| u.get_document("$unset"));
        assert!(unset.is_ok_and(|unset| *unset == doc! { "names.old": "" }), "{statement}");
    }
}
