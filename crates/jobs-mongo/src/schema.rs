//! Collections and indexes: made by `migrate`, under a version of the driver's own.
//!
//! An index is made by the server without blocking writes, and making one that is there is nothing,
//! so any number of processes may migrate at once; the version is written last.

use jobs_core::{ErrorKind, Result};
use mongodb::bson::{Document, doc};

use crate::{
    db::Db,
    error::Fault,
    row::{int, text},
};

/// The schema that this release makes. It also runs on the next one, because migrations only add.
pub const SCHEMA: u32 = 1;

/// The oldest server it runs on, its major version.
pub const OLDEST_SERVER: u32 = 6;
/// The wire protocol's version of that.
const OLDEST_WIRE: i64 = 17;

/// Every collection.
pub(crate) const COLLECTIONS: [&str; 8] =
    ["jobs", "lanes", "turns", "taken", "minutes", "workers", "wake", "schema"];

fn index(name: &str, key: Document, only: Document) -> Document {
    if only.is_empty() {
        return doc! { "name": name, "key": key };
    }
    doc! { "name": name, "key": key, "partialFilterExpression": only }
}

fn there(field: &str) -> Document {
    doc! { field: { "$exists": true } }
}

/// The indexes of each collection. Fields that exist only in some states make the partial ones: a job
/// that leaves a state leaves the index.
fn indexes() -> Vec<(&'static str, Vec<Document>)> {
    let all = Document::new();
    let mut held = index("held", doc! { "held": 1 }, there("held"));
    held.insert("unique", true);
    let jobs = vec![
        // What is in line or not due yet, line by line, in the order of delivery.
        index("line", doc! { "line": 1, "run_at": 1, "_id": 1 }, there("line")),
        // What runs, by the nonce of the reserve that took it. The lease's end is no part of it, so
        // that a renewal changes no index.
        index("run", doc! { "run": 1 }, there("run")),
        held,
        // Lists, newest id first. Of the states through which a job passes on its way only the
        // walk over all; the cold ones, where a job stays, have their own.
        index("queue", doc! { "queue": 1, "_id": 1 }, all.clone()),
        index("tenant", doc! { "tenant": 1, "_id": 1 }, all.clone()),
        index("lane", doc! { "tenant": 1, "queue": 1, "_id": 1 }, all),
        // What sweeps put in line.
        index("due", doc! { "run_at": 1 }, doc! { "cold": 0_i32 }),
        index("cold", doc! { "cold": 1, "_id": 1 }, there("cold")),
        index("cold_queue", doc! { "cold": 1, "queue": 1, "_id": 1 }, there("cold")),
        index("cold_tenant", doc! { "cold": 1, "tenant": 1, "_id": 1 }, there("cold")),
        index("cold_lane", doc! { "cold": 1, "tenant": 1, "queue": 1, "_id": 1 }, there("cold")),
        // History by age, and what is left of it.
        index(
            "done",
            doc! { "state": 1, "queue": 1, "ended_at": 1, "tenant": 1 },
            doc! {
                "state": 4_i32, "ended_at": { "$exists": true },
            },
        ),
        index("gone", doc! { "gone": 1 }, there("gone")),
        index("stub", doc! { "stub": 1 }, there("stub")),
    ];
    vec![
        ("jobs", jobs),
        ("taken", vec![index("at", doc! { "at": 1 }, Document::new())]),
        ("minutes", vec![index("at", doc! { "at": 1 }, Document::new())]),
    ]
}

/// Is the server a replica set of a fit version, and the schema not newer than this release knows?
pub(crate) async fn check(db: &Db) -> Result<()> {
    db.alone("connect", async {
        let hello = db.run(doc! { "hello": 1 }).await?;
        supported(&hello)?;
        match version(db).await? {
            version if version > i64::from(SCHEMA) + 1 => Err(newer(version)),
            _ => Ok(()),
        }
    })
    .await
}

/// What a server's `hello` says of it.
fn supported(hello: &Document) -> std::result::Result<(), Fault> {
    let refuse = |what: String| Err(Fault::Refused(ErrorKind::Unsafe, what));
    if int(hello, "maxWireVersion").unwrap_or_default() < OLDEST_WIRE {
        return refuse(format!(
            "the server is older than MongoDB {OLDEST_SERVER}, the oldest that the store runs on: \
             upgrade it"
        ));
    }
    if text(hello, "msg").is_some_and(|msg| msg == "isdbgrid") {
        let what = "this is a mongos: connect to a replica set, sharded clusters are not supported";
        return refuse(what.to_owned());
    }
    if !hello.contains_key("setName") {
        return refuse(
            "the server is a standalone, which has no change streams, no transactions and no \
             majority: start it with --replSet rs0, run rs.initiate() in mongosh once, and connect \
             with ?replicaSet=rs0"
                .to_owned(),
        );
    }
    Ok(())
}

fn newer(found: i64) -> Fault {
    let what = format!(
        "the schema is version {found}, this release runs on {SCHEMA} and the next: deploy a newer \
         release"
    );
    Fault::Refused(ErrorKind::Schema, what)
}

/// The version of the schema, 0 when there is none.
async fn version(db: &Db) -> std::result::Result<i64, Fault> {
    let find = doc! { "find": db.name("schema"), "filter": { "_id": "schema" }, "limit": 1 };
    let rows = db.rows(find).await?;
    Ok(rows.first().and_then(|row| int(row, "version")).unwrap_or_default())
}

/// Are the collections there, as far as their version says?
pub(crate) async fn found(db: &Db) -> std::result::Result<(), Fault> {
    match version(db).await? {
        0 => {
            let what = "the jobs collections are missing: call migrate() once";
            Err(Fault::Refused(ErrorKind::Schema, what.to_owned()))
        }
        version if version > i64::from(SCHEMA) + 1 => Err(newer(version)),
        _ => Ok(()),
    }
}

/// Makes collections and indexes that are not there. Without the deadline of a call: an index of a
/// large collection takes longer.
pub(crate) async fn migrate(db: &Db) -> Result<()> {
    let migrate = async {
        let hello = db.run(doc! { "hello": 1 }).await?;
        supported(&hello)?;
        let found = version(db).await?;
        if found > i64::from(SCHEMA) + 1 {
            return Err(newer(found));
        }
        // Of a newer release's schema as well: an index may have been dropped by hand.
        if found >= i64::from(SCHEMA) && missing(db).await?.is_empty() {
            return Ok(());
        }
        for collection in COLLECTIONS {
            // 48: it is there.
            match db.run(doc! { "create": db.name(collection) }).await {
                Err(fault) if fault.code() == Some(48) => {}
                made => _ = made?,
            }
        }
        for (collection, indexes) in indexes() {
            let command = doc! { "createIndexes": db.name(collection), "indexes": indexes };
            db.run(command).await?;
        }
        let version = doc! { "$max": { "version": i64::from(SCHEMA) } };
        let version = doc! { "q": { "_id": "schema" }, "u": version, "upsert": true };
        // A second process that inserts it at the same time wrote the same.
        db.update("schema", vec![version]).await?;
        Ok(())
    };
    migrate.await.map_err(|fault: Fault| fault.into_error("migrate"))
}

/// Which indexes of this release are missing.
pub(crate) async fn missing(db: &Db) -> std::result::Result<Vec<String>, Fault> {
    let mut missing = Vec::new();
    for (collection, indexes) in indexes() {
        let list = db.rows(doc! { "listIndexes": db.name(collection) }).await;
        let there: Vec<_> = match list {
            // 26: there is no such collection.
            Err(fault) if fault.code() == Some(26) => Vec::new(),
            rows => rows?.iter().filter_map(|row| text(row, "name")).collect(),
        };
        for index in indexes {
            let name = text(&index, "name").unwrap_or_default();
            if !there.contains(&name) {
                missing.push(format!("{}.{name}", db.name(collection)));
            }
        }
    }
    Ok(missing)
}
