//! Check (A7).

use jobs_core::{Result, driver::small, time::from_millis, view::Check};
use mongodb::bson::doc;

use crate::{
    Mongo,
    row::{date, int, need, text},
    schema,
};

/// Schema, safety settings and clock.
pub(crate) async fn health(store: &Mongo) -> Result<Check> {
    let db = &store.db;
    let health = async {
        let mut findings = Vec::new();
        let hello = db.run(doc! { "hello": 1 }).await?;
        let now = need(date(&hello, "localTime"), "localTime")?;
        let build = db.run(doc! { "buildInfo": 1 }).await?;
        let find = doc! { "find": db.name("schema"), "filter": { "_id": "schema" }, "limit": 1 };
        let rows = db.rows(find).await?;
        let version = rows.first().and_then(|row| int(row, "version")).unwrap_or_default();
        for index in schema::missing(db).await? {
            findings.push(format!("the index {index} is missing: run the migrations again"));
        }
        let members = hello.get_array("hosts").map_or(0, Vec::len);
        if hello.get_array("arbiters").is_ok_and(|arbiters| !arbiters.is_empty()) && members < 3 {
            findings.push(
                "the set has an arbiter and two members with data: while one is away no write is \
                 acknowledged, add a third"
                    .to_owned(),
            );
        }
        Ok(Check {
            store: format!("MongoDB {}", text(&build, "version").unwrap_or_default()),
            schema: small(version),
            now: from_millis(now),
            findings,
        })
    };
    db.alone("check", health).await
}
