//! What a reserve reads: the server's time, whether its nonce was here, whether what is known of
//! settings and turns still holds, and the lines.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use mongodb::bson::{Document, doc};

use super::{pick::Read, reserve::Call};
use crate::{
    Mongo,
    error::Fault,
    frontier::{Known, Line},
    row::{at, date, int, need, text},
    settings::Settings,
    turns::Turns,
};

/// Lines that one statement reads: each costs the server some 0.1 ms of planning, and it takes a
/// thousand stages at most.
pub(super) const UNIONS: usize = 36;
/// Of how many times as many candidates a reserve that met another takes its own by lot.
const SPREAD: usize = 8;

impl Call<'_> {
    /// One statement: the server's time, whether this nonce was here before, whether settings and
    /// turns are the known ones, and either all lines or the heads of some. `false`: it was here.
    pub(super) async fn survey(
        &mut self,
        known: &mut Known,
        look: bool,
        lines: &BTreeSet<Line>,
        limit: usize,
        read: &mut HashMap<Line, Read>,
    ) -> std::result::Result<bool, Fault> {
        let db = &self.store.db;
        let queue = self.request.queue();
        let version = |collection: &str, field: &str| {
            let found = doc! { "$project": { "_id": 0, field: "$version" } };
            let pipeline = vec![doc! { "$match": { "_id": queue } }, found];
            doc! { "$unionWith": { "coll": db.name(collection), "pipeline": pipeline } }
        };
        let mut pipeline = vec![
            doc! { "$match": { "_id": "schema" } },
            doc! { "$project": { "_id": 0, "now": "$$NOW" } },
            version("lanes", "settings"),
            version("turns", "turns"),
        ];
        let first = self.claimed.is_none();
        if first {
            // What it took and holds, or that what it took was lost since.
            let nonce = self.request.nonce_of().0;
            for (collection, field) in [("jobs", "run"), ("taken", "_id")] {
                let again = vec![
                    doc! { "$match": { field: nonce } },
                    doc! { "$limit": 1 },
                    doc! { "$project": { "_id": 0, "again": "$_id" } },
                ];
                let coll = db.name(collection);
                pipeline.push(doc! { "$unionWith": { "coll": coll, "pipeline": again } });
            }
        }
        let walks = |name: &String| ["r", "s"].map(|kind| walk(&format!("{kind}/{queue}/{name}")));
        let walks = self.request.names().iter().flat_map(walks);
        let mut walks: Vec<_> = if look { walks.collect() } else { Vec::new() };
        let later_walks = walks.split_off(walks.len().min(UNIONS));
        for walk in walks {
            pipeline.push(doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": walk } });
        }
        let (now_lines, later): (Vec<_>, Vec<_>) =
            lines.iter().enumerate().partition(|(place, _)| *place < UNIONS);
        // Alone, its heads are what is taken.
        let whole = now_lines.len() == 1 && !self.met;
        for (_, line) in &now_lines {
            let heads = heads(line, known, self.spread(limit), whole);
            pipeline.push(doc! { "$unionWith": { "coll": db.name("jobs"), "pipeline": heads } });
        }
        let command = doc! { "aggregate": db.name("schema"), "pipeline": pipeline, "cursor": {} };
        let began = Instant::now();
        let mut rows = db.rows(command).await?;
        for part in later_walks.chunks(UNIONS) {
            rows.extend(union(self.store, part.iter().cloned()).await?);
        }
        let (mut settings, mut turns, mut again) = (0, 0, false);
        let mut found = BTreeMap::new();
        for line in now_lines.iter().map(|(_, line)| *line) {
            read.insert(line.clone(), Read::default());
        }
        let mut now = None;
        for row in &rows {
            if let Some(time) = date(row, "now") {
                now = Some(time);
            } else if row.contains_key("again") {
                again = true;
            } else if let Some(version) = int(row, "settings") {
                settings = version;
            } else if let Some(version) = int(row, "turns") {
                turns = version;
            } else if let Some(line) = text(row, "walked").as_deref().and_then(Line::read) {
                found.insert(line, need(date(row, "run_at"), "run_at")?);
            } else {
                head(row, read)?;
                if let Some(id) = text(row, "_id").filter(|_| whole) {
                    self.whole.insert(id, row.clone());
                }
            }
        }
        for (_, read) in read.iter_mut().filter(|(line, _)| lines.contains(line)) {
            self.sample(read, limit);
        }
        // Without the schema's document there is no store any more.
        let gone = "the jobs collections are missing: call migrate() once";
        let gone = || Fault::Refused(jobs_core::ErrorKind::Schema, gone.to_owned());
        self.now = now.ok_or_else(gone)?;
        db.clock.heard(self.now);
        if first && (again || self.store.remembered(self.request.nonce_of()).is_some()) {
            return Ok(false);
        }
        if settings != known.settings.version {
            known.settings = match self.document("lanes").await? {
                Some(row) => Settings::read(&row),
                None => Settings::default(),
            };
        }
        if turns != known.turns.version {
            known.turns =
                self.document("turns").await?.map(|row| Turns::read(&row)).unwrap_or_default();
        }
        if look {
            known.looked(self.request.names(), found, began);
        }
        let later: BTreeSet<Line> = later.into_iter().map(|(_, line)| line.clone()).collect();
        if !later.is_empty() {
            self.read(known, &later, limit, read).await?;
        }
        Ok(true)
    }

    pub(super) async fn document(
        &self,
        collection: &str,
    ) -> std::result::Result<Option<Document>, Fault> {
        let db = &self.store.db;
        let filter = doc! { "_id": self.request.queue() };
        let find = doc! { "find": db.name(collection), "filter": filter, "limit": 1 };
        Ok(db.rows(find).await?.into_iter().next())
    }

    /// Reads some lines from where they are known to have work.
    pub(super) async fn read(
        &self,
        known: &Known,
        lines: &BTreeSet<Line>,
        limit: usize,
        read: &mut HashMap<Line, Read>,
    ) -> std::result::Result<(), Fault> {
        let asked = self.spread(limit);
        let all: Vec<&Line> = lines.iter().collect();
        for part in all.chunks(UNIONS) {
            let rows =
                union(self.store, part.iter().map(|line| heads(line, known, asked, false))).await?;
            for line in part {
                read.insert((*line).clone(), Read::default());
            }
            for row in &rows {
                head(row, read)?;
            }
            for line in part {
                if let Some(read) = read.get_mut(*line) {
                    self.sample(read, limit);
                }
            }
        }
        Ok(())
    }

    pub(super) fn spread(&self, limit: usize) -> usize {
        if self.met { limit.saturating_mul(SPREAD) } else { limit }
    }

    /// Of what was read of a line, as many as were wanted: the first, or where another reserve is in
    /// the way some by lot.
    pub(super) fn sample(&self, read: &mut Read, wanted: usize) {
        read.first = read.heads.first().map(|(due, _)| *due);
        read.more = wanted > 0 && read.heads.len() >= self.spread(wanted);
        if self.met && read.heads.len() > wanted {
            while read.heads.len() > wanted {
                read.heads.remove(fastrand::usize(..read.heads.len()));
            }
            read.more = true;
        }
    }
}

/// The distinct lines that begin so, each with its first due time: one seek of the index a line.
pub(crate) fn walk(prefix: &str) -> Vec<Document> {
    // The character after the slash.
    let range = doc! { "$gte": format!("{prefix}/"), "$lt": format!("{prefix}0") };
    vec![
        doc! { "$match": { "line": range } },
        doc! { "$sort": { "line": 1, "run_at": 1, "_id": 1 } },
        doc! { "$group": { "_id": "$line", "run_at": { "$first": "$run_at" } } },
        doc! { "$project": { "_id": 0, "walked": "$_id", "run_at": 1 } },
    ]
}

/// The first jobs of a line from its place on, by the index alone.
pub(super) fn heads(line: &Line, known: &Known, limit: usize, whole: bool) -> Vec<Document> {
    let from = known.lines.get(line).copied().unwrap_or(i64::MIN);
    let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let what = match whole {
        true => doc! { "attempts": 0, "cause": 0 },
        false => doc! { "run_at": 1, "line": 1 },
    };
    vec![
        doc! { "$match": { "line": line.stored(), "run_at": { "$gte": at(from) } } },
        doc! { "$sort": { "run_at": 1, "_id": 1 } },
        doc! { "$limit": limit },
        doc! { "$project": what },
    ]
}

pub(super) fn head(
    row: &Document,
    read: &mut HashMap<Line, Read>,
) -> std::result::Result<(), Fault> {
    let line = need(text(row, "line").as_deref().and_then(Line::read), "line")?;
    let head = (need(date(row, "run_at"), "run_at")?, need(text(row, "_id"), "_id")?);
    read.entry(line).or_default().heads.push(head);
    Ok(())
}

/// Several pipelines on the jobs in one statement.
pub(crate) async fn union(
    store: &Mongo,
    mut pipelines: impl Iterator<Item = Vec<Document>>,
) -> std::result::Result<Vec<Document>, Fault> {
    let name = store.db.name("jobs");
    let Some(mut pipeline) = pipelines.next() else { return Ok(Vec::new()) };
    let rest =
        pipelines.map(|pipeline| doc! { "$unionWith": { "coll": &name, "pipeline": pipeline } });
    pipeline.extend(rest);
    store.db.rows(doc! { "aggregate": &name, "pipeline": pipeline, "cursor": {} }).await
}
